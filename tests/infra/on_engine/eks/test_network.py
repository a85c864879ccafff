"""EKS clusters in private subnets, and in subnets that exist, through the real engine and over the
simulated AWS, which refuses as the real one does.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.cloud_engine import REGION, CloudEngine
from tests.infra.existing_vpc import ExistingVpc, ec2


def fleet(network: Any = None, *, zones: str = "ab", pools: str = "b") -> dict[str, Any]:
    cluster = {"name": "c", "region": REGION, "zones": [REGION + z for z in zones]}
    return {
        "cloud": "eks",
        "cluster": cluster | ({"network": network} if network else {}),
        "node_pools": [
            {
                "name": "a",
                "machine_type": "g6.xlarge",
                "nodes": {"count": 1},
                "zones": [REGION + z for z in pools],
            }
        ],
    }


def group_subnets(engine: CloudEngine, group: str = "a") -> list[dict[str, Any]]:
    found = engine.ask("DescribeNodegroup", clusterName="c", nodegroupName=group)["nodegroup"]
    return list(ec2(engine, "DescribeSubnets", SubnetIds=found["subnets"])["Subnets"])


def test_the_whole_life_of_private_nodes_behind_one_nat_gateway_then_one_per_zone(
    engine: CloudEngine,
) -> None:
    one = fleet("private")
    engine.deploy_and_settle(one)
    for group in ("a", "system"):
        assert not any(s["MapPublicIpOnLaunch"] for s in group_subnets(engine, group))
    (gateway,) = ec2(engine, "DescribeNatGateways")["NatGateways"]
    (inside,) = ec2(engine, "DescribeSubnets", SubnetIds=[gateway["SubnetId"]])["Subnets"]
    assert inside["MapPublicIpOnLaunch"]
    each = engine.deploy(fleet({"mode": "private", "nat_gateways": "per-zone"}, pools="c"))
    assert each.steps["eks-us-west-2b-private"] == "updated", each.output
    assert "eks" not in each.steps
    live = [
        g for g in ec2(engine, "DescribeNatGateways")["NatGateways"] if g["State"] == "available"
    ]
    assert len(live) == 3
    engine.deploy(one)
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}


@pytest.mark.long("private nodes, from beginning to end: tests/infra/on_engine/eks/test_network.py")
def test_nodes_become_private_and_public_again_while_the_cluster_stays(engine: CloudEngine) -> None:
    engine.deploy(fleet())
    private = engine.deploy(fleet("private"))
    assert "eks" not in private.steps, private.output
    engine.assert_no_changes(fleet("private"))
    public = engine.deploy(fleet())
    assert "eks" not in public.steps, public.output
    engine.assert_no_changes(fleet())


def existing(*subnets: str) -> dict[str, Any]:
    return {"mode": "existing", "subnets": list(subnets)}


def test_subnets_that_exist_are_used_and_stay_as_they_are(engine: CloudEngine) -> None:
    account = ExistingVpc(engine)
    both = existing(*account.public.values(), *account.private.values())
    used = fleet(both)
    engine.deploy_and_settle(used)
    # Nodes in the private one of their zone.
    assert [s["SubnetId"] for s in group_subnets(engine)] == [account.private["b"]]
    # Without the public ones: in place, and the same zones.
    fewer = engine.deploy(fleet(existing(*account.private.values())))
    assert fewer.steps["eks"] == "updated", fewer.output
    assert "eks-a" not in fewer.steps, fewer.output
    cluster = engine.ask("DescribeCluster", name="c")["cluster"]["resourcesVpcConfig"]
    assert sorted(cluster["subnetIds"]) == sorted([account.private["a"], account.private["b"]])
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert account.seen() == account.before


@pytest.mark.long("subnets that exist: tests/infra/on_engine/eks/test_network.py")
def test_a_cluster_of_its_own_vpc_moves_to_one_that_exists_and_back(engine: CloudEngine) -> None:
    account = ExistingVpc(engine)
    engine.deploy(fleet())
    there = fleet(existing(*account.private.values()))
    shown = engine.preview(there)
    assert "+- aws:eks:Cluster eks replace" in shown.output, shown.output
    engine.deploy(there)
    engine.assert_no_changes(there)
    vpc = engine.ask("DescribeCluster", name="c")["cluster"]["resourcesVpcConfig"]["vpcId"]
    assert vpc == account.vpc
    engine.deploy(fleet())
    engine.assert_no_changes(fleet())
    assert account.seen() == account.before


def test_subnets_that_do_not_fit_are_refused_before_anything_is_made(engine: CloudEngine) -> None:
    account = ExistingVpc(engine)
    other = ExistingVpc(engine)
    ran = engine.preview(
        fleet(existing(account.private["a"], account.private["c"], other.private["a"]))
    )
    assert ran.code != 0
    for said in (
        "cluster.network.subnets: a cluster is in one VPC, and these are in several: ",
        f"{other.private['a']} is in {other.vpc}",
        "cluster.network.subnets: none of them is in us-west-2b, which the cluster or a pool uses",
        f"{account.private['c']} in us-west-2c (usw2-az",
    ):
        assert said in ran.output, ran.output
    assert "Traceback" not in ran.output
    missing = engine.preview(fleet(existing("subnet-0123456789abcdef0")))
    assert missing.code != 0
    assert "The subnet ID 'subnet-0123456789abcdef0' does not exist" in missing.output


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_endpoint_and_logs_change_in_place_and_back(engine: CloudEngine) -> None:
    def of(**more: Any) -> dict[str, Any]:
        asked = fleet()
        asked["cluster"] |= more
        return asked

    def seen() -> tuple[Any, ...]:
        cluster = engine.ask("DescribeCluster", name="c")["cluster"]
        network = cluster["resourcesVpcConfig"]
        logs = [g["types"] for g in cluster["logging"]["clusterLogging"] if g["enabled"]]
        names = ("endpointPublicAccess", "endpointPrivateAccess", "publicAccessCidrs")
        return (*(network[name] for name in names), [t for types in logs for t in types])

    closed = {"private": True, "public_cidrs": ["203.0.113.0/24", "198.51.100.0/24"]}
    for asked, found in (
        (of(), (True, False, ["0.0.0.0/0"], [])),
        (
            of(endpoint=closed, logs=["audit", "api"]),
            (True, True, closed["public_cidrs"], ["api", "audit"]),
        ),
        (of(endpoint={"public": False, "private": True}, logs=["audit"]), None),
        (of(endpoint=closed, logs=["audit"]), (True, True, closed["public_cidrs"], ["audit"])),
        (of(), (True, False, ["0.0.0.0/0"], [])),
    ):
        ran = engine.deploy(asked)
        assert ran.steps.get("eks") in (None, "created", "updated"), ran.output
        engine.assert_settled(asked)
        if found is not None:
            assert seen() == found


def test_a_stack_of_an_earlier_version_sees_no_difference(engine: CloudEngine) -> None:
    """What was not asked for then, and is asked for now as it is by default."""
    program = engine.directory / "__main__.py"
    now = program.read_text()
    program.write_text(_EARLIER + now)
    engine.deploy(fleet())
    program.write_text(now)
    engine.assert_settled(fleet())


_EARLIER = """\
import pulumi

_SINCE = ("endpoint_public_access", "endpoint_private_access", "public_access_cidrs")


def _as_before(args):
    if args.type_ != "aws:eks/cluster:Cluster":
        return None
    for name in _SINCE:
        setattr(args.props["vpc_config"], name, None)
    return pulumi.ResourceTransformationResult(args.props, args.opts)


pulumi.runtime.register_stack_transformation(_as_before)
"""
