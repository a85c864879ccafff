"""Karpenter's part of the account through the real engine: the role that its pods have, no node
group for its pools, and nothing left of either.
"""

from __future__ import annotations

from typing import Any

from slicewright.infra import manifests
from tests.infra.cloud_engine import REGION, CloudEngine


def fleet(autoscaler: str) -> dict[str, Any]:
    pool = {
        "name": "a",
        "machine_type": "p4d.24xlarge",
        "nodes": {"min": 0, "max": 3},
        "release_version": "1.36.0-20260714",
        "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
        "disk": {"encrypted": True},
    }
    fixed = {"name": "b", "machine_type": "g6.xlarge", "nodes": {"count": 1}}
    cluster = {"name": "c", "region": REGION, "version": "1.36", "autoscaler": autoscaler}
    return {"cloud": "eks", "cluster": cluster, "node_pools": [pool, fixed]}


def groups(engine: CloudEngine) -> list[str]:
    return sorted(engine.ask("ListNodegroups", clusterName="c")["nodegroups"])


def service_accounts(engine: CloudEngine) -> list[str]:
    found = engine.ask("ListPodIdentityAssociations", clusterName="c")["associations"]
    return [one["serviceAccount"] for one in found]


def test_pool_moves_to_karpenter_and_back_while_other_pools_stay(engine: CloudEngine) -> None:
    engine.deploy(fleet("cluster-autoscaler"))
    assert groups(engine) == ["a", "b", "system"]
    fixed = engine.provider_ids("c", "b")
    engine.deploy(fleet("karpenter"))
    assert groups(engine) == ["b", "system"]
    assert service_accounts(engine) == [manifests.KARPENTER_NAME]
    assert engine.provider_ids("c", "b") == fixed
    # Karpenter makes launch templates of its own.
    assert "ec2.launchTemplate" not in engine.cloud.inventory()
    engine.assert_settled(fleet("karpenter"))
    engine.deploy(fleet("cluster-autoscaler"))
    assert groups(engine) == ["a", "b", "system"]
    assert service_accounts(engine) == [manifests.AUTOSCALER_NAME]
    assert engine.provider_ids("c", "b") == fixed
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}
