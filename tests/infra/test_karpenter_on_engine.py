"""Karpenter's part of the account through the real engine: the role that its pods have, no node
group for its pools, and nothing left of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra import values
from rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import REGION, CloudEngine, cloud_engine


@pytest.fixture
def engine(tmp_path: Path, toolchain: Toolchain) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path, toolchain) as engine:
        yield engine


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
    before = engine.up(fleet("cluster-autoscaler"))
    assert before.code == 0, before.output
    assert groups(engine) == ["a", "b", "system"]
    fixed = engine.provider_ids("c", "b")
    changed = engine.up(fleet("karpenter"))
    assert changed.code == 0, changed.output
    assert groups(engine) == ["b", "system"]
    assert service_accounts(engine) == [values.KARPENTER_NAME]
    assert engine.provider_ids("c", "b") == fixed
    # Karpenter makes launch templates of its own.
    assert "ec2.launchTemplate" not in engine.cloud.inventory()
    again = engine.up(fleet("karpenter"), "--expect-no-changes")
    assert again.code == 0, again.output
    drift = engine.refresh("--expect-no-changes")
    assert drift.code == 0, drift.output
    back = engine.up(fleet("cluster-autoscaler"))
    assert back.code == 0, back.output
    assert groups(engine) == ["a", "b", "system"]
    assert service_accounts(engine) == [values.AUTOSCALER_NAME]
    assert engine.provider_ids("c", "b") == fixed
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}
