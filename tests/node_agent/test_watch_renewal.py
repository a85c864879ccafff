"""The agent's loop in containers with the device nodes of their creation, over the fake NVML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired
from slicewright.rehearsal.cluster.node.container_runtime import Container, Mode
from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.clocks import Clocks
from tests.node_agent.one_node import EKS, GKE, STATE, Agent, Api, Node


@pytest.fixture
def node(
    silicon: Callable[..., Any], desired: Desired, clocks: Clocks, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Node:  # fmt: skip
    """Two whole GPUs."""
    return Node(silicon("H100-80", 2), Api(), clocks, desired, tmp_path, monkeypatch.setenv)


def _partitioned_by_mig_manager(node: Node, agent: Agent) -> None:
    node.api.labels = {STATE: "pending"}
    agent.turns(3)
    node.partition()
    node.api.labels = {STATE: "success"}
    agent.turns(3)
    node.api.resources = {"nvidia.com/gpu": "4"}


@pytest.mark.parametrize("mode", ["legacy", "cdi"])
def test_an_eks_agent_from_before_the_partitioning_ends_and_the_next_one_matches(
    node: Node, mode: Mode
) -> None:
    node.desired = replace(node.desired, partitioner="mig-manager")
    with node.container(EKS, mode) as agent:
        agent.turns(2)
        _partitioned_by_mig_manager(node, agent)
        assert agent.turns(20) < 5, node.api.reports
        assert agent.stop.is_set()
    with node.container(EKS, mode) as agent:
        agent.turns(80)
        assert not agent.stop.is_set()
    assert node.api.reports == [
        "NotPartitioned", "PartitioningUnderWay", "DeviceNodesOutdated", "PartitionsMatch",
    ]  # fmt: skip


def test_a_gke_agent_from_before_the_partitioning_ends_and_the_next_one_matches(
    node: Node,
) -> None:
    with node.container(GKE, "legacy") as agent:
        agent.turns(2)
        node.partition()
        agent.turns(2)
        node.api.resources = {"nvidia.com/gpu": "4"}
        assert agent.turns(20) < 5, node.api.reports
        assert agent.stop.is_set()
    with node.container(GKE, "legacy") as agent:
        agent.turns(80)
        assert not agent.stop.is_set()
    reasons = ["PartitioningUnderWay", "DeviceNodesOutdated", "PartitionsMatch"]
    assert node.api.reports == reasons


def test_a_privileged_agent_sees_instances_that_it_cannot_open_and_ends_too(node: Node) -> None:
    with node.container(GKE, "legacy", user=None) as agent:
        agent.turns(2)
        node.partition()
        node.api.resources = {"nvidia.com/gpu": "4"}
        agent.turns(20)
        assert agent.stop.is_set()
    assert node.api.reports[-1] == "DeviceNodesOutdated"


def test_an_agent_to_which_cdi_gave_no_gpu_ends_and_the_next_one_matches(node: Node) -> None:
    """Created between the change of MIG mode and the first instance."""
    node.desired = replace(node.desired, partitioner="mig-manager")
    for index in range(2):
        state.repartition(node.silicon.path, index, [])
    node.api.labels = {STATE: "pending"}
    with node.container(EKS, "cdi") as agent:
        agent.turns(2)
        _partitioned_by_mig_manager(node, agent)
        assert agent.turns(20) < 5, node.api.reports
    with node.container(EKS, "cdi") as agent:
        agent.turns(3)
    assert node.api.reports[-1] == "PartitionsMatch"
    assert "WrongGpuCount" not in node.api.reports


@pytest.mark.parametrize(("kind", "partitioner"), [(EKS, "mig-manager"), (GKE, "gke")])
def test_without_renewal_a_partitioned_node_is_not_partitioned_for_ever(
    kind: Container, partitioner: Any, node: Node
) -> None:
    """What the rehearsal's containers must show, or the runs above prove nothing."""
    node.desired = replace(node.desired, partitioner=partitioner)
    with node.container(kind, "legacy", renews=False) as agent:
        agent.turns(2)
        _partitioned_by_mig_manager(node, agent)
        agent.turns(100)
    # Who may open the capability `monitor` sees GPU instances, but none of their devices.
    assert node.api.reports[-1] == ("NotPartitioned" if kind is EKS else "ComputeInstanceMissing")
    assert "PartitionsMatch" not in node.api.reports
