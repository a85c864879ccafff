"""Settings of a new EKS cluster, through the real engine and over the simulated AWS, which refuses
as the real one does.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.infra.cloud_engine import REGION, CloudEngine


def fleet(**cluster: Any) -> dict[str, Any]:
    return {
        "cloud": "eks",
        "cluster": {"name": "c", "region": REGION, **cluster},
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }


def addon(engine: CloudEngine, name: str) -> tuple[str, Any]:
    """Version and settings."""
    found = engine.ask("DescribeAddon", clusterName="c", addonName=name)["addon"]
    return found["addonVersion"], json.loads(found.get("configurationValues", "null"))


@pytest.mark.long("what EKS is asked for: tests/infra/plan/eks/test_addons.py")
def test_addons_are_pinned_and_change_in_place_while_nodes_stay(engine: CloudEngine) -> None:
    engine.deploy_and_settle(fleet())
    nodes = engine.provider_ids("c", "a")
    newest = addon(engine, "vpc-cni")
    assert newest == ("v1.21.1-eksbuild.1", {"enableNetworkPolicy": "true"})
    prefixes = {"env": {"ENABLE_PREFIX_DELEGATION": "true"}}
    pinned = {
        "vpc-cni": {"version": "v1.20.4-eksbuild.2", "settings": prefixes},
        "coredns": {"settings": {"replicaCount": 3}},
        "eks-pod-identity-agent": {"version": "v1.3.8-eksbuild.2"},
        "eks-node-monitoring-agent": {},
    }
    ran = engine.deploy_and_settle(fleet(addons=pinned))
    assert ran.steps["eks-vpc-cni"] == ran.steps["eks-coredns"] == "updated", ran.output
    assert ran.steps["eks-eks-pod-identity-agent"] == "created", ran.output
    assert not {"eks", "eks-a", "eks-system"} & set(ran.steps), ran.output
    assert addon(engine, "vpc-cni") == (
        "v1.20.4-eksbuild.2",
        {"enableNetworkPolicy": "true", **prefixes},
    )
    assert addon(engine, "coredns")[1] == {"replicaCount": 3}
    # What the file no longer states stays, except for what the program itself always states.
    back = engine.deploy_and_settle(fleet(addons={"coredns": {"settings": {}}}))
    assert back.steps["eks-eks-node-monitoring-agent"] == "deleted", back.output
    assert addon(engine, "vpc-cni") == ("v1.20.4-eksbuild.2", newest[1])
    assert addon(engine, "coredns")[1] == {}
    assert engine.ask("ListAddons", clusterName="c")["addons"] == [
        "coredns",
        "kube-proxy",
        "vpc-cni",
    ]
    assert engine.provider_ids("c", "a") == nodes
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}


def test_ebs_driver_and_its_role_are_added_and_removed_together(engine: CloudEngine) -> None:
    engine.deploy_and_settle(fleet(addons={"aws-ebs-csi-driver": {}}))
    driver = engine.ask("DescribeAddon", clusterName="c", addonName="aws-ebs-csi-driver")["addon"]
    assert driver["status"] == "ACTIVE", driver
    (arn,) = driver["podIdentityAssociations"]
    names = {"clusterName": "c", "associationId": arn.rpartition("/")[2]}
    association = engine.ask("DescribePodIdentityAssociation", **names)["association"]
    assert (association["namespace"], association["serviceAccount"]) == (
        "kube-system",
        "ebs-csi-controller-sa",
    )
    assert association["roleArn"].rpartition("/")[2].endswith(".ebs-csi")
    without = engine.deploy_and_settle(fleet())
    assert without.steps["eks-aws-ebs-csi-driver"] == "deleted", without.output
    assert without.steps["eks-ebs-csi"] == "deleted", without.output
    assert engine.ask("ListPodIdentityAssociations", clusterName="c")["associations"] == []
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}


def test_unsupported_version_is_refused_with_the_message_of_eks(engine: CloudEngine) -> None:
    ran = engine.up(fleet(addons={"coredns": {"version": "v9.9.9-eksbuild.1"}}))
    assert ran.code != 0
    assert "Addon version specified is not supported" in ran.output


def key_of(engine: CloudEngine) -> list[str]:
    cluster = engine.ask("DescribeCluster", name="c")["cluster"]
    return [one["provider"]["keyArn"] for one in cluster.get("encryptionConfig", [])]


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_a_cluster_gets_a_key_of_secrets_once_and_another_key_is_another_cluster(
    engine: CloudEngine,
) -> None:
    first, second = (f"arn:aws:kms:{REGION}:111122223333:key/{name}" for name in "ab")
    engine.deploy_and_settle(fleet())
    assert key_of(engine) == []
    keyed = engine.deploy_and_settle(fleet(secrets_key=first))
    assert keyed.steps == {"eks": "updated"}, keyed.output
    assert key_of(engine) == [first]
    for asked in (fleet(secrets_key=second), fleet()):
        shown = engine.preview(asked)
        assert shown.code == 0, shown.output
        assert "+- aws:eks:Cluster eks replace" in shown.output, shown.output
    engine.deploy_and_settle(fleet(secrets_key=second))
    assert key_of(engine) == [second]
