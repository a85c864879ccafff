"""What a preview says of nodes in service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from slicewright.fleet_controller.rollout import applying, upgrading
from slicewright.infra import plan
from slicewright.infra.components.fleet.gpu_pool import GpuPools
from slicewright.infra.manifests.rollout_warnings import (
    _DRIVER_MINUTES,
    _PARTITION_MINUTES,
    rollout_warnings,
)
from tests.recorder import VERIFIED, Recorder, thread_loop

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def pool() -> plan.PoolPlan:
    (pool,) = plan.read_file(ROOT / "stacks" / "Pulumi.eks-a100.yaml").pools
    return replace(pool, nodes=plan.NodeCount(min=8, max=8, autoscaled=False))


def _with(pool: plan.PoolPlan, **rollout: Any) -> plan.PoolPlan:
    return replace(pool, rollout=pool.rollout.model_copy(update=rollout))


def _said(pool: plan.PoolPlan, *, nodes: float, layout: str | None = "old") -> list[str]:
    return rollout_warnings(pool, {"migConfig": layout}, {"nodes": {"total": nodes}})


def test_another_layout_says_how_many_roll_and_how_long(pool: plan.PoolPlan) -> None:
    (said,) = _said(pool, nodes=8.0)
    assert (
        f"from old to {pool.offer.mig_config}, so its 8 nodes roll: 1 first as a proof, then"
        in said
    )
    assert "at most 1 at a time; pods that use their GPUs are evicted" in said
    assert "It takes 12 h at most" in said, "8 times an hour and a half"


@pytest.mark.parametrize(
    ("rollout", "span"),
    [
        ({"max_unavailable": 4, "canary": 1}, "4 h 30 min"),
        ({"max_unavailable": 4, "canary": 0}, "3 h"),
        ({"max_unavailable": 8, "canary": 8}, "1 h 30 min"),
        ({"max_unavailable": "25%", "canary": 0}, "6 h"),
        ({"max_unavailable": 8, "canary": 0, "on_drain_timeout": "force"}, "2 h 30 min"),
        ({"max_unavailable": 8, "canary": 0, "drain_timeout_minutes": 5}, "35 min"),
    ],
)
def test_the_time_follows_from_the_policy(
    rollout: dict[str, Any], span: str, pool: plan.PoolPlan
) -> None:
    (said,) = _said(_with(pool, **rollout), nodes=8)
    assert f"It takes {span} at most" in said


@pytest.mark.parametrize(
    ("zones", "policy", "span"),
    [
        # 1 as a proof, and in the worst case one in each of two other zones.
        (3, {"max_unavailable": 4}, "4 h 30 min"),
        (1, {"max_unavailable": 4}, "3 h"),
        (3, {"max_unavailable": 4, "canary": 2}, "4 h 30 min"),
        (2, {"max_unavailable": 1}, "4 h 30 min"),
    ],
)
def test_one_zone_at_a_time_takes_a_turn_in_each(
    zones: int, policy: dict[str, Any], span: str, pool: plan.PoolPlan
) -> None:
    assert isinstance(pool.settings, plan.EksSettings)
    spread = pool.with_settings(replace(pool.settings, zones=tuple("abc"[:zones])))
    (said,) = _said(_with(spread, one_zone_at_a_time=True, **policy), nodes=3)
    assert f"It takes {span} at most" in said


def test_existing_nodes_may_all_be_in_different_zones(pool: plan.PoolPlan) -> None:
    (byo,) = plan.read_file(ROOT / "stacks" / "Pulumi.existing-a100-t4.yaml").pools[:1]
    (said,) = _said(_with(byo, one_zone_at_a_time=True, max_unavailable=4), nodes=4)
    assert "It takes 6 h at most" in said


def test_the_same_layout_a_new_pool_and_an_empty_one_are_nothing(pool: plan.PoolPlan) -> None:
    assert _said(pool, nodes=8, layout=pool.offer.mig_config) == []
    assert _said(pool, nodes=0) == []
    assert rollout_warnings(pool, None, None) == []
    assert _said(replace(pool, offer=replace(pool.offer, mig_config=None)), nodes=8) == []


def test_pool_with_an_undone_change_rolls_only_for_a_third_layout(pool: plan.PoolPlan) -> None:
    """With the file as it is nothing changes, and with the old layout there no node does."""
    undone = {"nodes": {"total": 8}, "layout": "old"}
    assert rollout_warnings(pool, {"migConfig": pool.offer.mig_config}, undone) == []
    back = replace(pool, offer=replace(pool.offer, mig_config="old"))
    assert rollout_warnings(back, {"migConfig": pool.offer.mig_config}, undone) == []
    (said,) = rollout_warnings(pool, {"migConfig": "another"}, undone)
    assert f"from old to {pool.offer.mig_config}" in said


def test_fewer_nodes_say_that_the_pods_on_them_end(pool: plan.PoolPlan) -> None:
    one = replace(pool, nodes=plan.NodeCount(min=1, max=1, autoscaled=False))
    (said,) = _said(one, nodes=2, layout=pool.offer.mig_config)
    assert "has 2 nodes and may have 1: 1 node of the cloud's choice goes, undrained" in said
    assert "the pods on it end" in said


def test_preview_reports_no_removal_if_the_limit_removes_none(pool: plan.PoolPlan) -> None:
    """Nodes that exist already, GKE's autoscaled ones and Karpenter's."""
    fewer = plan.NodeCount(min=0, max=1, autoscaled=True)
    (byo,) = plan.read_file(ROOT / "stacks" / "Pulumi.existing-a100-t4.yaml").pools[:1]
    (gke,) = plan.read_file(ROOT / "stacks" / "Pulumi.gke-h100.yaml").pools[:1]
    assert isinstance(pool.settings, plan.EksSettings)
    by_karpenter = plan.KarpenterPool(
        image="al2023@v20260714", overlay={}, replaced_together="1", drain_minutes=None
    )
    karpenter = pool.with_settings(replace(pool.settings, karpenter=by_karpenter))
    for one in (byo, gke, karpenter):
        shrunk = replace(one, nodes=fewer)
        assert _said(shrunk, nodes=2, layout=one.offer.mig_config) == []
    (said,) = _said(replace(pool, nodes=fewer), nodes=2, layout=pool.offer.mig_config)
    assert "1 node of the cloud's choice goes" in said, "EKS wants no more than the maximum"
    fixed = plan.NodeCount(min=1, max=1, autoscaled=False)
    assert len(_said(replace(gke, nodes=fixed), nodes=2, layout=gke.offer.mig_config)) == 1


def test_the_warning_of_a_replaced_node_pool_says_that_pods_end_and_how_to_move_them(
    pool: plan.PoolPlan,
) -> None:
    status = {"nodes": {"total": 3}}
    (said,) = rollout_warnings(pool, {"migConfig": "old"}, status, replaced=True)
    assert "its node pool is replaced, so its 3 nodes go and the pods on them end" in said
    assert "under another name" in said
    assert rollout_warnings(pool, {"migConfig": "old"}, {"nodes": {}}, replaced=True) == []


def test_warnings_assume_the_controllers_time_limits() -> None:
    assert applying.APPLY_LIMIT_S == 60 * _PARTITION_MINUTES
    assert upgrading.UPGRADE_LIMIT_S == 60 * _DRIVER_MINUTES


def test_another_driver_says_which_nodes_roll_and_how_long(pool: plan.PoolPlan) -> None:
    pinned = replace(pool, driver_version="590.48.01")
    live = {"migConfig": pool.offer.mig_config, "driverVersion": "580.95.05"}
    status = {"nodes": {"total": 8}}
    (said,) = rollout_warnings(pinned, live, status)
    assert "the driver changes from 580.95.05 to 590.48.01; of its 8 nodes those with" in said
    assert "1 first as a proof, then at most 1 at a time" in said
    assert "It takes 16 h at most" in said, "8 times two hours"
    (said,) = rollout_warnings(pinned, {"migConfig": pool.offer.mig_config}, status)
    assert "the driver changes to 590.48.01" in said
    assert rollout_warnings(pinned, {**live, "driverVersion": "590.48.01"}, status) == []
    assert rollout_warnings(pool, live, status) == [], "from then on it is NVIDIA's to change"


class _Machines(pulumi.CustomResource):
    """A node pool."""

    def __init__(self, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("aws:eks/nodeGroup:NodeGroup", "group", {}, opts)


class _Living(Recorder):
    """The engine in a preview, where every pool is in the cluster with another layout."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        _, outputs = super().new_resource(args)
        if args.typ.endswith(":GPUPool"):
            outputs |= {"spec": {"migConfig": "old"}}
        if args.resource_id or not args.typ.endswith(":GPUPool"):
            return args.resource_id, outputs
        return f"{args.name}-id", outputs


@pytest.mark.parametrize("preview", [True, False])
def test_a_preview_reads_the_pool_and_warns(
    pool: plan.PoolPlan, preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: said.append(text))
    status = {**VERIFIED, "nodes": {"total": 8.0}}
    engine = _Living(status=status, preview=preview)

    def declare() -> None:
        GpuPools("p", pools=[pool], timeout_minutes=1, cluster=None, depends_on={pool.name: []})

    with thread_loop():
        pulumi.runtime.set_mocks(engine, project="slicewright", stack="x", preview=preview)
        pulumi.runtime.test(declare)()  # type: ignore[no-untyped-call]
    rolls = [text for text in said if "so its 8 nodes roll" in text]
    assert len(rolls) == (1 if preview else 0), "an `up` does it, and need not foretell it"


@pytest.mark.parametrize("stays", [True, False])
def test_a_preview_warns_if_a_node_pool_with_nodes_in_service_is_replaced(
    pool: plan.PoolPlan, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine knows the ID of one that stays, and not of one that it replaces."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: said.append(text))
    engine = _Living(status={**VERIFIED, "nodes": {"total": 8.0}}, preview=True)

    def declare() -> None:
        machines = _Machines(pulumi.ResourceOptions(id="there") if stays else None)
        GpuPools(
            "p",
            pools=[pool],
            timeout_minutes=1,
            cluster=None,
            depends_on={pool.name: [machines]},
            machines={pool.name: machines},
        )

    with thread_loop():
        pulumi.runtime.set_mocks(engine, project="slicewright", stack="x", preview=True)
        pulumi.runtime.test(declare)()  # type: ignore[no-untyped-call]
    assert any("its node pool is replaced" in text for text in said) is not stays
