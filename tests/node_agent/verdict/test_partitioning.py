"""When the agent keeps away from the driver because GKE may be partitioning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.verdict.partitioning import GKE_PATIENCE_S, Partitioning


@pytest.fixture
def bare(node: NodeState) -> NodeState:
    """No device plugin advertises anything."""
    return replace(node, allocatable={"nvidia.com/gpu": 0})


def _loaded() -> bool:
    return True


def test_it_waits_from_the_drivers_load_until_gpus_are_advertised(
    desired: Desired, bare: NodeState, node: NodeState
) -> None:
    loaded = [False]
    waits = Partitioning(driver_loaded=lambda: loaded[0])
    assert waits.judge(desired, bare, 0.0) is None
    loaded[0] = True
    verdict = waits.judge(desired, bare, 1.0)
    assert verdict is not None
    assert (verdict.verdict, verdict.reason) == ("Unknown", "PartitioningUnderWay")
    assert "nvidia-gpu-device-plugin" in verdict.message
    assert waits.judge(desired, node, 2.0) is None


def test_after_its_patience_it_looks(desired: Desired, bare: NodeState, node: NodeState) -> None:
    waits = Partitioning(driver_loaded=_loaded)
    assert waits.judge(desired, bare, 10.0)
    assert waits.judge(desired, bare, 10.0 + GKE_PATIENCE_S - 1)
    assert waits.judge(desired, bare, 10.0 + GKE_PATIENCE_S) is None
    # The next time begins anew: the node was in service meanwhile.
    waits.judge(desired, node, 1_000.0)
    assert waits.judge(desired, bare, 1_001.0)


def test_without_an_answer_of_the_api_server_the_last_node_counts(
    desired: Desired, node: NodeState
) -> None:
    waits = Partitioning(driver_loaded=_loaded)
    assert waits.judge(desired, None, 0.0)
    waits.judge(desired, node, 1.0)
    assert waits.judge(desired, None, 2.0) is None


@pytest.mark.parametrize("partitioner", ["bottlerocket", "mig-manager", "none"])
def test_nobody_else_partitions_unseen(partitioner: str, desired: Desired, bare: NodeState) -> None:
    of = replace(desired, partitioner=partitioner)  # type: ignore[arg-type]
    assert Partitioning(driver_loaded=_loaded).judge(of, bare, 0.0) is None


def test_whole_gpus_are_not_partitioned(desired: Desired, bare: NodeState) -> None:
    whole = replace(desired, gpus=(DesiredGpu(index="all", mig=False),))
    assert Partitioning(driver_loaded=_loaded).judge(whole, bare, 0.0) is None


def test_mig_managers_label_counts_as_before(desired: Desired, node: NodeState) -> None:
    of = replace(desired, partitioner="mig-manager")
    verdict = Partitioning().judge(of, replace(node, mig_state="pending"), 0.0)
    assert verdict is not None
    assert verdict.reason == "PartitioningUnderWay"
