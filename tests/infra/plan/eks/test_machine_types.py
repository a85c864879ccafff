"""EKS pools whose nodes may have several machine types: all with the same GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.infra import plan, stack_file
from tests.recorder import Made

FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2}}
node_pools:
- {{name: a, machine_type: {first}, nodes: {{count: 2}}, other_machine_types: {others}{more}}}
"""


def fleet(others: str, first: str = "g6.xlarge", more: str = "") -> str:
    return FLEET.format(first=first, others=others, more=more and f", {more}")


def test_the_group_has_all_types_in_their_order(record_cloud: Callable[..., list[Made]]) -> None:
    written = fleet("[g6.4xlarge, g6.2xlarge]", more="capacity: spot")
    (group,) = (
        m.inputs
        for m in record_cloud("test", fleet=written)
        if m.type.endswith(":NodeGroup") and m.name == "eks-a"
    )
    assert group["instanceTypes"] == ["g6.xlarge", "g6.4xlarge", "g6.2xlarge"]
    assert group["capacityType"] == "SPOT"


def test_on_demand_nodes_may_have_several_types_too() -> None:
    raw: dict[str, Any] = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-west-2"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "g6.xlarge",
                "nodes": {"count": 1},
                "other_machine_types": ["g6.2xlarge"],
            }
        ],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    assert found.pools[0].settings.machine_types == ("g6.xlarge", "g6.2xlarge")
    assert any("EC2 chooses each node's machine type" in note for note in plan.notes(found))


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (fleet("[g6.12xlarge]"), "g6.12xlarge has 4 x L4, and g6.xlarge 1 x L4: partitions and"),
        (fleet("[g5.xlarge]"), "g5.xlarge has 1 x A10G, and g6.xlarge 1 x L4"),
        (fleet("[m7i.large]"), "m7i.large has no GPU"),
        (fleet("[g6.2xlarg]"), "other_machine_types[0] (pool a): g6.2xlarg is not in the catalog"),
        (fleet("[g6.xlarge]"), "g6.xlarge is written twice"),
        (fleet("[g6.2xlarge, g6.2xlarge]"), "g6.2xlarge is written twice"),
        (
            fleet("[gr6.4xlarge]", more="capacity: reservation"),
            "reservation covers a single machine",
        ),
        (fleet("[p4de.24xlarge]", "p4d.24xlarge"), "p4de.24xlarge has 8 x A100-80"),
    ],
)
def test_types_that_do_not_fit_one_layout_or_group_are_refused(
    broken: Callable[[str], str], written: str, said: str
) -> None:
    refused = broken(written)
    assert said in refused
    assert " 1 problem," in refused


def test_the_type_with_the_fewest_addresses_decides_how_many_devices_fit(
    broken: Callable[[str], str],
) -> None:
    share = "sharing: {mode: time-slicing, replicas: 60}"
    refused = broken(fleet("[g6.xlarge]", "g6.4xlarge", share))
    assert "g6.xlarge has addresses for 58 pods" in refused
