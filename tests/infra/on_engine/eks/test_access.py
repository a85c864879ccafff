"""Access entries through the real engine, over the simulated EKS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.infra.cloud_engine import REGION, CloudEngine
from tests.infra.existing_vpc import ExistingCluster, ExistingVpc

ROLE = "arn:aws:iam::111122223333:role"
CREATOR = "arn:aws:iam::123456789012:user/rehearsal"
ADMIN = {"name": "AmazonEKSClusterAdminPolicy"}


def fleet(
    *entries: Mapping[str, Any], creator_admin: bool = True, **cluster: Any
) -> dict[str, Any]:
    access: dict[str, Any] = {"entries": [*entries]}
    if not creator_admin:
        access["creator_admin"] = False
    return {
        "cloud": "eks",
        "cluster": {"name": "c", "region": REGION, "access": access, **cluster},
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }


def entry(name: str, *policies: Mapping[str, Any], groups: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"principal": f"{ROLE}/{name}", "policies": [*policies], "groups": [*groups]}


def access(engine: CloudEngine) -> dict[str, tuple[list[str], dict[str, list[str]]]]:
    """Principal -> its groups, and the namespaces of each of its policies."""
    found = {}
    for principal in engine.ask("ListAccessEntries", clusterName="c")["accessEntries"]:
        names = {"clusterName": "c", "principalArn": principal}
        one = engine.ask("DescribeAccessEntry", **names)["accessEntry"]
        policies = engine.ask("ListAssociatedAccessPolicies", **names)["associatedAccessPolicies"]
        found[principal.rpartition("/")[2]] = (
            one["kubernetesGroups"],
            {p["policyArn"].rpartition("/")[2]: p["accessScope"]["namespaces"] for p in policies},
        )
    return found


@pytest.mark.long("what EKS is asked for: tests/infra/plan/eks/test_access.py")
def test_access_entries_are_added_changed_and_removed_while_nodes_stay(engine: CloudEngine) -> None:
    engine.deploy_and_settle(
        fleet(entry("ml", ADMIN, groups=("ml",)), entry("ops", groups=("ops",)))
    )
    creators = {"rehearsal": ([], {"AmazonEKSClusterAdminPolicy": []})}
    assert access(engine) == creators | {
        "ml": (["ml"], {"AmazonEKSClusterAdminPolicy": []}),
        "ops": (["ops"], {}),
    }
    nodes = engine.provider_ids("c", "a")
    edit = {"name": "AmazonEKSEditPolicy"}
    for namespaces in (["a"], ["a", "b-*"]):
        # Of the same policy with another scope, EKS has one association.
        ran = engine.deploy_and_settle(fleet(entry("ml", edit | {"namespaces": namespaces})))
        assert access(engine) == creators | {"ml": ([], {"AmazonEKSEditPolicy": namespaces})}
        assert not {"eks", "eks-a", "eks-system"} & set(ran.steps), ran.output
    names = {"clusterName": "c", "principalArn": f"{ROLE}/ml"}
    engine.ask("DeleteAccessEntry", **names)
    assert engine.refresh().code == 0
    engine.deploy_and_settle(fleet(entry("ml", edit)))
    assert access(engine) == creators | {"ml": ([], {"AmazonEKSEditPolicy": []})}
    engine.deploy_and_settle(fleet())
    assert access(engine) == creators
    assert engine.provider_ids("c", "a") == nodes
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}


def test_creator_admin_counts_only_at_the_creation_of_the_cluster(engine: CloudEngine) -> None:
    twice = engine.up(fleet({"principal": CREATOR, "policies": [ADMIN]}))
    assert twice.code != 0
    assert "The specified access entry resource is already in use on this cluster" in twice.output
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    alone = fleet({"principal": CREATOR, "policies": [ADMIN]}, creator_admin=False)
    engine.deploy_and_settle(alone)
    assert [*access(engine)] == ["rehearsal"]
    # Later it changes nothing, and above all not the cluster.
    later = engine.deploy_and_settle(fleet({"principal": CREATOR, "policies": [ADMIN]}))
    assert later.steps == {}, later.output


def test_destroy_removes_only_its_own_entries_from_an_existing_cluster(engine: CloudEngine) -> None:
    cluster = ExistingCluster(engine, ExistingVpc(engine))
    before = access(engine)
    names = {"existing": True, "zones": [REGION + "a", REGION + "b"]}
    engine.deploy_and_settle(fleet(entry("ml", ADMIN), **names))
    assert access(engine) == before | {"ml": ([], {"AmazonEKSClusterAdminPolicy": []})}
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert access(engine) == before
    assert cluster.seen() == cluster.before


def test_cluster_without_access_entries_is_refused_before_any_resource(
    engine: CloudEngine,
) -> None:
    ExistingCluster(engine, ExistingVpc(engine), mode="CONFIG_MAP")
    names = {"existing": True, "zones": [REGION + "a", REGION + "b"]}
    refused = engine.preview(fleet(entry("ml", ADMIN), **names))
    assert refused.code != 0
    assert (
        "cluster c has the authentication mode CONFIG_MAP, in which EKS refuses" in refused.output
    )
    assert engine.preview(fleet(**names)).code == 0
