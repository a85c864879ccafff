"""A zone's subnet stays what it is when other zones come or go: a node group whose subnet changes
is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2, zones: [{zones}]}}
node_pools:
- {{name: a, machine_type: p4d.24xlarge, nodes: {{count: 1}}, zones: [us-west-2b]}}
"""


def ranges(record: Callable[..., Any], *zones: str) -> dict[str, str]:
    made = record("x", fleet=FLEET.format(zones=", ".join(zones)))
    subnets = [m.inputs for m in made if m.type == "aws:ec2/subnet:Subnet"]
    found = {subnet["availabilityZone"]: subnet["cidrBlock"] for subnet in subnets}
    assert len(set(found.values())) == len(found) == len(subnets)
    return found


def test_adding_or_removing_a_zone_changes_no_other_range(record: Callable[..., Any]) -> None:
    two = ranges(record, "us-west-2a", "us-west-2b")
    for zones in (
        ("us-west-2c", "us-west-2a"),
        ("us-west-2b", "us-west-2c", "us-west-2d"),
        ("us-west-2-lax-1a", "us-west-2a"),
    ):
        other = ranges(record, *zones)
        assert {zone: other[zone] for zone in two if zone in other} == {
            zone: two[zone] for zone in two if zone in other
        }
