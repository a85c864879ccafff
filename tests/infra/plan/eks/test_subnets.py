"""A zone's subnet stays what it is when other zones come or go: a node group whose subnet changes
is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2, zones: [{zones}], network: {network}}}
node_pools:
- {{name: a, machine_type: g6.xlarge, nodes: {{count: 1}}, zones: [{pools}]}}
"""


def ranges(
    record_cloud: Callable[..., Any],
    *zones: str,
    pools: str = "us-west-2b",
    by: str = "availabilityZone",
    public: bool = True,
) -> dict[str, str]:
    """Zone -> range of its public subnet, or of its private one."""
    network = "public" if public else "private"
    made = record_cloud(
        "x", fleet=FLEET.format(zones=", ".join(zones), pools=pools, network=network)
    )
    every = [m.inputs for m in made if m.type == "aws:ec2/subnet:Subnet"]
    assert len({s["cidrBlock"] for s in every}) == len(every)
    subnets = [s for s in every if s["mapPublicIpOnLaunch"] is public]
    found = {subnet[by]: subnet["cidrBlock"] for subnet in subnets}
    assert len(set(found.values())) == len(found) == len(subnets)
    return found


def test_adding_or_removing_a_zone_changes_no_other_range(record_cloud: Callable[..., Any]) -> None:
    two = ranges(record_cloud, "us-west-2a", "us-west-2b")
    for zones, pools in (
        (("us-west-2c", "us-west-2a"), "us-west-2b"),
        (("us-west-2b", "us-west-2c", "us-west-2d"), "us-west-2b"),
        (("us-west-2b", "us-west-2a"), "us-west-2-lax-1a"),
    ):
        other = ranges(record_cloud, *zones, pools=pools)
        assert {zone: other[zone] for zone in two if zone in other} == {
            zone: two[zone] for zone in two if zone in other
        }


def test_zones_by_id_have_ranges_that_no_letter_has(record_cloud: Callable[..., Any]) -> None:
    """The subnet of a zone that is spelled otherwise is made before the old one is gone."""
    by_letter = ranges(record_cloud, "us-west-2a", "us-west-2b")
    two = ("usw2-az1", "usw2-az4")
    by_id = ranges(record_cloud, *two, pools="usw2-az3", by="availabilityZoneId")
    assert set(by_id) == {*two, "usw2-az3"}
    assert not set(by_letter.values()) & set(by_id.values())
    more = ranges(record_cloud, *two, "usw2-az2", pools="usw2-az3", by="availabilityZoneId")
    assert {zone: more[zone] for zone in by_id} == by_id


def test_private_subnets_have_ranges_of_their_own_that_stay_too(
    record_cloud: Callable[..., Any],
) -> None:
    for by, zones, pools, other in (
        ("availabilityZone", ("us-west-2a", "us-west-2b"), "us-west-2d", "us-west-2c"),
        ("availabilityZoneId", ("usw2-az1", "usw2-az2"), "usw2-az4", "usw2-az3"),
    ):
        two = ranges(record_cloud, *zones, pools=pools, by=by, public=False)
        assert set(two) == {*zones, pools}
        more = ranges(record_cloud, *zones, other, pools=pools, by=by, public=False)
        assert {zone: more[zone] for zone in two} == two
        local = (
            ranges(record_cloud, *zones, pools=f"{zones[0][:4]}-lax1-az1", by=by, public=False)
            if (by == "availabilityZoneId")
            else ranges(record_cloud, *zones, pools="us-west-2-lax-1a", by=by, public=False)
        )
        assert {zone: local[zone] for zone in zones} == {zone: two[zone] for zone in zones}
