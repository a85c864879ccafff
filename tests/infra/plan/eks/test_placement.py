"""EKS pools in a placement group of their own."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from slicewright.infra import plan, stack_file
from tests.recorder import Made

Record = Callable[..., list[Made]]
FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2, network: private}}
node_pools:
- {{name: a, machine_type: p4d.24xlarge, nodes: {{count: 2}}, placement: cluster{pool}}}
- {{name: b, machine_type: g6.xlarge, nodes: {{count: 1}}, instance_metadata: {{}}}}
"""


def written(pool: str = "") -> str:
    return FLEET.format(pool=pool and f", {pool}")


def test_a_pool_has_a_group_of_its_own_in_its_launch_template(record_cloud: Record) -> None:
    made = record_cloud("test", fleet=written("efa: true, zones: [us-west-2b]"))
    (group,) = (m for m in made if m.type == "aws:ec2/placementGroup:PlacementGroup")
    assert (group.name, group.inputs["strategy"]) == ("eks-a", "cluster")
    assert group.inputs["tags"]["Name"] == "c"
    assert "slicewright.io/stack" in group.inputs["tags"]
    templates = {m.name: m.inputs for m in made if m.type.endswith(":LaunchTemplate")}
    assert templates["eks-a"]["placement"] == {"groupName": "eks-a"}
    assert "placement" not in templates["eks-b"]


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (
            "zones: [us-west-2b, us-west-2c]",
            "a cluster placement group is in one zone, and the pool is in several",
        ),
        (
            "capacity: {mode: capacity-block, reservation: cr-0123456789abcdef0}",
            "machines of a capacity block are close to each other already",
        ),
    ],
)
def test_placement_that_ec2_refuses_is_refused(
    broken: Callable[[str], str], pool: str, said: str
) -> None:
    refused = " ".join(broken(written(pool)).split())
    assert said in refused
    assert " 1 problem," in refused


def test_compact_is_the_word_of_gke(broken: Callable[[str], str]) -> None:
    text = written().replace("placement: cluster", "placement: compact")
    assert "cluster" in broken(text)


def test_a_note_says_that_placement_may_run_short_of_capacity() -> None:
    def notes(text: str) -> str:
        raw = yaml.safe_load(text)
        return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))

    assert "pool a: EC2 places nodes close together most easily" in notes(written())
    assert "serves no other group" not in notes(written())
    reserved = written("capacity: {mode: reservation, reservation: cr-0123456789abcdef0}")
    assert "pool a: a reservation that was made in a placement group serves no other group" in (
        notes(reserved)
    )
    assert "close together" not in notes(written().replace(", placement: cluster", ""))
