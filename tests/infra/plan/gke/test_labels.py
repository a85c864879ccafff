"""Labels of a GKE cluster, by which its cost is assigned."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from slicewright.infra import plan, stack_file
from tests.recorder import Made

FLEET = """\
cloud: gke
cluster: {{name: c, location: us-central1-a, resource_labels: {labels}{more}}}
node_pools:
- {{name: a, machine_type: a2-highgpu-1g, nodes: {{count: 1}}, resource_labels: {pool}}}
"""


def written(labels: str, pool: str = "{}", more: str = "") -> str:
    return FLEET.format(labels=labels, pool=pool, more=more)


def test_the_cluster_has_them_and_hands_them_on_itself(
    record_cloud: Callable[..., list[Made]],
) -> None:
    """In a pool's own they would cost its nodes, whenever one changes."""
    made = record_cloud("test", fleet=written("{owner: ml}", "{team: vision}"))
    (cluster,) = (m.inputs for m in made if m.type == "gcp:container/cluster:Cluster")
    assert cluster["resourceLabels"] == {"owner": "ml"}
    pools = {m.name: m.inputs["nodeConfig"] for m in made if m.type.endswith(":NodePool")}
    assert pools["gke-a"]["resourceLabels"] == {"team": "vision"}
    assert "resourceLabels" not in pools["gke-system"]


def many(count: int) -> str:
    return str({f"l{number}": "x" for number in range(count)})


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        (written(many(64)), "64 labels are too many: Google Cloud allows 64 on a resource, and"),
        (
            written("{goog-x: y}"),
            "cluster.resource_labels.goog-x: begins with goog-, the prefix of",
        ),
        (written("{}", "{goog-gke-x: y}"), "begins with goog-, the prefix of labels"),
        (written("{Team: y}"), "is not a valid Google Cloud label key"),
        (
            written("{owner: ml}", more=", existing: true"),
            "cluster.resource_labels: the cluster exists already, and slicewright does not change",
        ),
    ],
)
def test_a_label_that_google_refuses_or_sets_is_refused(
    broken: Callable[[str], str], fleet: str, said: str
) -> None:
    refused = broken(fleet)
    assert said in refused
    assert " 1 problem," in refused


def test_as_many_as_google_takes_are_accepted() -> None:
    raw = yaml.safe_load(written(many(63), many(64)))
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.GkeFleetPlan)
    assert len(found.cluster.resource_labels) == 63
