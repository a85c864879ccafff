"""What a change of an EKS stack does, through the real engine: each `up` against what EKS accepts.

EKS is simulated, and refuses as the real one does (tests/rehearsal/clouds/aws/wrong_requests.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import CloudEngine, cloud_engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path_factory.mktemp("eks"), toolchain) as engine:
        yield engine


CR = "cr-0123456789abcdef0"


def fleet(zones: str = "ab", pools: str = "b", **pool: Any) -> dict[str, Any]:
    region = "us-west-2"
    return {
        "cloud": "eks",
        "cluster": {"name": "c", "region": region, "zones": [region + z for z in zones]},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "g6.xlarge",
                "nodes": {"count": 1},
                "zones": [region + z for z in pools],
                **pool,
            }
        ],
    }


def test_a_pool_in_another_zone_gets_a_subnet_and_the_cluster_keeps_its_subnets(
    engine: CloudEngine,
) -> None:
    engine.deploy(fleet())
    engine.assert_no_changes(fleet())
    moved = engine.deploy(fleet(pools="c"))
    assert "eks-us-west-2c" in moved.steps, moved.output
    assert "eks" not in moved.steps, moved.output
    back = engine.deploy(fleet(pools="b"))
    assert moved.steps["eks-us-west-2c"] == "created"
    assert back.steps["eks-us-west-2c"] == "deleted"


def test_preview_shows_that_other_zones_replace_the_cluster(
    engine: CloudEngine,
) -> None:
    shown = engine.preview(fleet(zones="ac"))
    assert shown.code == 0, shown.output
    assert "+- aws:eks:Cluster eks replace" in shown.output
    engine.deploy_and_settle(fleet(zones="ac"))


@pytest.mark.long("a live count that is kept: tests/infra/on_engine/eks/test_autoscaler.py")
def test_every_change_keeps_the_node_count_of_the_autoscaler(engine: CloudEngine) -> None:
    """At 3 nodes, where the state says 1: first nothing changes, then labels, then the limits."""

    def scaled(low: int, high: int, **more: Any) -> dict[str, Any]:
        return fleet(zones="ac", nodes={"min": low, "max": high}, **more)

    engine.deploy(scaled(1, 4))
    engine.autoscale("c", "a", 3)
    clean = engine.preview(scaled(1, 4), "--expect-no-changes")
    assert clean.code == 0, clean.output
    for asked, count in (
        (scaled(1, 4, labels={"team": "ml"}), 3),
        (scaled(1, 5), 3),  # the state's 1 would end two nodes
        (scaled(2, 5), 3),  # EKS would refuse the state's 1
        (scaled(4, 5), 4),
        (scaled(1, 2), 2),
        (scaled(1, 4), 2),
    ):
        engine.deploy(asked)
        assert engine.count("c", "a") == count, asked["node_pools"]
        engine.assert_no_changes(asked)


def test_nodes_are_upgraded_after_the_cluster(engine: CloudEngine) -> None:
    def of(version: str) -> dict[str, Any]:
        asked = fleet(zones="ac")
        asked["cluster"]["version"] = version
        return asked

    # The cluster was created without a version, with EKS's default.
    now = engine.ask("DescribeCluster", name="c")["cluster"]["version"]
    engine.deploy(of(now))
    older = f"1.{int(now.partition('.')[2]) - 1}"
    recreated = fleet(zones="ac")
    recreated["cluster"] |= {"name": "d", "version": older}
    assert engine.up(recreated).code == 0
    recreated["cluster"]["version"] = now
    risen = engine.deploy(recreated)
    order = [
        risen.output.index(f"{kind} {name} updated")
        for kind, name in (
            ("aws:eks:Cluster", "eks"),
            ("aws:eks:NodeGroup", "eks-system"),
            ("aws:eks:NodeGroup", "eks-a"),
        )
    ]
    assert order == sorted(order)
    for group in ("system", "a"):
        found = engine.ask("DescribeNodegroup", clusterName="d", nodegroupName=group)["nodegroup"]
        assert found["version"] == now
        assert found["releaseVersion"].startswith(f"{now}.")
    engine.assert_no_changes(recreated)


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_a_launch_template_replaces_the_pool_once_and_then_rolls_its_nodes(
    engine: CloudEngine,
) -> None:
    """At the end of the module's stack: cluster d, pool a."""

    def of(**pool: Any) -> dict[str, Any]:
        asked = fleet(zones="ac", **pool)
        asked["cluster"] |= {"name": "d", "version": version}
        return asked

    version = engine.ask("DescribeCluster", name="d")["cluster"]["version"]
    before = engine.group("d", "a")
    assert "launchTemplate" not in before
    tagged = {"instance_tags": {"team": "ml"}, "instance_metadata": {"hop_limit": 1}}
    replaced = engine.deploy(of(**tagged))
    assert "aws:eks:NodeGroup eks-a replaced" in replaced.output
    made = engine.group("d", "a")
    assert made["nodegroupArn"] != before["nodegroupArn"]
    assert (made["launchTemplate"]["version"], made.get("diskSize")) == ("1", None)
    assert engine.up(of(**tagged), "--expect-no-changes").code == 0
    assert engine.refresh("--expect-no-changes").code == 0
    node = engine.provider_ids("d", "a")
    for version_number, more in (
        ("2", {"instance_store": "raid0"}),
        ("3", {"disk": {"size_gb": 300}}),
        ("4", {"instance_metadata": {"hop_limit": 2}}),
    ):
        tagged |= more
        engine.deploy(of(**tagged))
        found = engine.group("d", "a")
        assert found["nodegroupArn"] == made["nodegroupArn"]
        assert found["launchTemplate"]["version"] == version_number
        assert not engine.provider_ids("d", "a") & node
        node = engine.provider_ids("d", "a")
        engine.assert_no_changes(of(**tagged))
    engine.deploy(of())
    assert "launchTemplate" not in engine.group("d", "a")
    assert engine.cloud.call("ec2", "DescribeLaunchTemplates", {"region": "us-west-2"}, {}) == {
        "LaunchTemplates": []
    }


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_updates_and_repair_change_in_place_and_repair_is_turned_off_by_its_key(
    engine: CloudEngine,
) -> None:
    def of(**pool: Any) -> dict[str, Any]:
        asked = fleet(zones="ac", **pool)
        asked["cluster"] |= {"name": "d", "version": version}
        return asked

    version = engine.ask("DescribeCluster", name="d")["cluster"]["version"]
    before, nodes = engine.group("d", "a"), engine.provider_ids("d", "a")
    rule = {
        "condition": "AcceleratedHardwareReady",
        "reason": "NvidiaXID64Error",
        "wait_minutes": 5,
        "action": "reboot",
    }
    half = {"update": {"max_unavailable": "50%"}}
    for pool, update, repair in (
        (
            {**half, "repair": {"max_parallel": 1, "rules": [rule]}},
            {"maxUnavailablePercentage": 50, "updateStrategy": "MINIMAL"},
            {
                "enabled": True,
                "maxParallelNodesRepairedCount": 1,
                "nodeRepairConfigOverrides": [
                    {
                        "nodeMonitoringCondition": "AcceleratedHardwareReady",
                        "nodeUnhealthyReason": "NvidiaXID64Error",
                        "minRepairWaitTimeMins": 5,
                        "repairAction": "Reboot",
                    }
                ],
            },
        ),
        (
            {"update": {"max_unavailable": 3}, "repair": {"enabled": False}},
            {"maxUnavailable": 3, "updateStrategy": "MINIMAL"},
            {"enabled": False},
        ),
        ({}, {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}, {"enabled": False}),
    ):
        engine.deploy(of(**pool))
        found = engine.group("d", "a")
        assert (found["updateConfig"], found["nodeRepairConfig"]) == (update, repair)
        assert found["nodegroupArn"] == before["nodegroupArn"]
        assert engine.provider_ids("d", "a") == nodes
        engine.assert_settled(of(**pool))


def test_another_machine_type_replaces_the_pool_and_nodes_get_an_available_type(
    engine: CloudEngine,
) -> None:
    def of(**pool: Any) -> dict[str, Any]:
        asked = fleet(zones="ac", nodes={"count": 2}, capacity="spot", **pool)
        asked["cluster"] |= {"name": "d", "version": version}
        return asked

    version = engine.ask("DescribeCluster", name="d")["cluster"]["version"]
    zones = engine.cloud.call("ec2", "DescribeAvailabilityZones", {"region": "us-west-2"}, {})
    ids = {z["ZoneName"]: z["ZoneId"] for z in zones["AvailabilityZones"]}
    engine.account(stock={"g6.xlarge": {ids["us-west-2b"]: 1}})
    several = {"other_machine_types": ["g6.2xlarge", "g6.4xlarge"]}
    engine.deploy(of(**several))
    types = sorted(
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
        for node in engine.nodes("d")
        if node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "a"
    )
    assert types == ["g6.2xlarge", "g6.xlarge"]
    engine.assert_settled(of(**several))
    engine.account()


def test_a_reservation_that_is_used_up_is_named_and_a_larger_one_is_used(
    engine: CloudEngine,
) -> None:
    def of(count: int, **capacity: str) -> dict[str, Any]:
        asked = fleet(zones="ac", nodes={"count": count}, capacity=capacity)
        asked["cluster"] |= {"name": "d", "version": version}
        return asked

    def reserve(count: int) -> None:
        found = {"zone": ids["us-west-2b"], "instance_type": "g6.xlarge", "count": count}
        # Without stock of its own, the zone gives what is reserved only.
        empty = {"g6.xlarge": {found["zone"]: 0}}
        engine.account(stock=empty, reservations={CR: found})

    version = engine.ask("DescribeCluster", name="d")["cluster"]["version"]
    zones = engine.cloud.call("ec2", "DescribeAvailabilityZones", {"region": "us-west-2"}, {})
    ids = {z["ZoneName"]: z["ZoneId"] for z in zones["AvailabilityZones"]}
    reserve(1)
    engine.deploy(of(1, mode="reservation", reservation=CR))
    short = engine.up(of(2, mode="reservation", reservation=CR))
    assert short.code != 0
    assert "Could not launch On-Demand Instances. ReservationCapacityExceeded" in short.output
    assert len(engine.provider_ids("d", "a")) == 1
    reserve(2)
    engine.until_active("d", "a")
    engine.deploy(of(2, mode="reservation", reservation=CR))
    assert len(engine.provider_ids("d", "a")) == 2
    engine.assert_settled(of(2, mode="reservation", reservation=CR))


def test_a_pool_may_name_a_capacity_block_before_it_starts(engine: CloudEngine) -> None:
    def of(low: int) -> dict[str, Any]:
        asked = fleet(
            zones="ac", nodes={"min": low, "max": 1}, machine_type="p5.48xlarge", name="block"
        )
        asked["node_pools"][0]["capacity"] = {"mode": "capacity-block", "reservation": CR}
        asked["cluster"] |= {"name": "d", "version": version}
        return asked

    def bought(state: str) -> None:
        zone = {z["ZoneName"]: z["ZoneId"] for z in zones["AvailabilityZones"]}["us-west-2b"]
        found = {"zone": zone, "instance_type": "p5.48xlarge", "count": 1, "state": state}
        engine.account(reservations={CR: found | {"kind": "capacity-block"}})

    version = engine.ask("DescribeCluster", name="d")["cluster"]["version"]
    zones = engine.cloud.call("ec2", "DescribeAvailabilityZones", {"region": "us-west-2"}, {})
    bought("scheduled")
    engine.deploy(of(0))
    bought("active")
    engine.deploy(of(1))
    assert len(engine.provider_ids("d", "block")) == 1
    engine.assert_settled(of(1))
    engine.account()


def test_destroy_leaves_nothing(engine: CloudEngine) -> None:
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}
