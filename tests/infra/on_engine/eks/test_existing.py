"""Node groups in an EKS cluster that exists, through the real engine and over the simulated AWS."""

from __future__ import annotations

import re
from typing import Any

from tests.infra.cloud_engine import REGION, CloudEngine
from tests.infra.existing_vpc import ExistingCluster, ExistingVpc, ec2


def fleet(pools: str = "b", **cluster: Any) -> dict[str, Any]:
    return {
        "cloud": "eks",
        "cluster": {"name": "c", "region": REGION, "existing": True, **cluster},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "g6.xlarge",
                "nodes": {"count": 1},
                "zones": [REGION + z for z in pools],
            }
        ],
        "system_pool": {"zones": [REGION + "a"]},
    }


def test_first_up_adds_pools_to_an_existing_cluster_network_and_pools(
    engine: CloudEngine,
) -> None:
    network = ExistingVpc(engine)
    cluster = ExistingCluster(engine, network)
    up = engine.deploy(fleet())
    engine.assert_settled(fleet())
    for group, zone in (("a", "b"), ("system", "a")):
        found = engine.ask("DescribeNodegroup", clusterName="c", nodegroupName=group)["nodegroup"]
        assert found["subnets"] == [network.private[zone]]
        assert found["version"] == "1.35"
    assert "aws:eks:NodeGroup" in (made := _made(up.output))
    assert not made & {"aws:eks:Cluster", "aws:eks:Addon", "aws:ec2:Vpc", "aws:ec2:Subnet"}
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert cluster.seen() == cluster.before
    assert network.seen() == network.before


def _made(output: str) -> set[str]:
    """The types of what was created."""
    return set(re.findall(r"^ ?\+ +(aws:[\w:]+) [\w-]+ created", output, re.M))


def test_nodes_follow_the_version_of_an_existing_cluster(engine: CloudEngine) -> None:
    cluster = ExistingCluster(engine, ExistingVpc(engine))
    engine.deploy(fleet())
    engine.ask("UpdateClusterVersion", name="c", version="1.36")
    cluster.settle()
    engine.deploy(fleet())
    for group in ("a", "system"):
        found = engine.ask("DescribeNodegroup", clusterName="c", nodegroupName=group)["nodegroup"]
        assert found["version"] == "1.36"


def test_nodes_may_be_in_other_subnets_of_the_clusters_network(engine: CloudEngine) -> None:
    network = ExistingVpc(engine)
    ExistingCluster(engine, network)
    subnets = {"mode": "existing", "subnets": [network.private["a"], network.private["c"]]}
    engine.deploy(fleet(pools="c", network=subnets))
    other = ExistingVpc(engine)
    wrong = {"mode": "existing", "subnets": [network.private["a"], other.private["c"]]}
    refused = engine.preview(fleet(pools="c", network=wrong))
    assert refused.code != 0
    assert f"nodes must be in the cluster's VPC, which is {network.vpc}, but " in refused.output
    assert f"{other.private['c']} is in {other.vpc}" in refused.output


def test_existing_cluster_that_nodes_cannot_join_is_refused_before_any_resource(
    engine: CloudEngine,
) -> None:
    missing = engine.preview(fleet())
    assert missing.code != 0
    assert "No cluster found for name: c" in missing.output
    ExistingCluster(engine, ExistingVpc(engine))
    elsewhere = engine.preview(fleet(pools="c"))
    assert elsewhere.code != 0
    assert "subnets of cluster c: none of them is in us-west-2c" in elsewhere.output
    delays = engine.directory.parent / "cloud" / "delays.json"
    delays.write_text('{"eks.UpdateCluster": 600}')
    engine.ask("UpdateClusterVersion", name="c", version="1.36")
    busy = engine.preview(fleet())
    assert busy.code != 0
    assert "cluster c is UPDATING, but EKS adds nodes to an ACTIVE cluster only" in busy.output
    assert ec2(engine, "DescribeVpcs")["Vpcs"]
