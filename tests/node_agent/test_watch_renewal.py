"""The agent's loop in containers with the device nodes of their creation, over the fake NVML."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from kubeapi import ApiError, Client
from node_agent.cluster.restart_memory import RestartMemory
from node_agent.desired import Desired
from node_agent.reporting.health import Health
from node_agent.reporting.metrics import Metrics
from node_agent.verdict.renewal import Renewal
from node_agent.watch import NodeWatch, Pace
from rehearsal.cluster.node import container_runtime
from rehearsal.cluster.node.container_runtime import Container, Mode
from rehearsal.cluster.silicon import device_nodes, state
from tests.node_agent.clocks import Clocks

EKS = Container(privileged=False, nvidia_runtime=True, env={"NVIDIA_VISIBLE_DEVICES": "all"})
GKE = Container(privileged=True, nvidia_runtime=False, env={})
USER = 65532 if os.geteuid() == 0 else None
"""As the pod has it; root would be shown the GPU instances."""
STATE = "nvidia.com/mig.config.state"


@dataclass
class Api:
    """One Node and one report."""

    resources: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    """Reasons, in the order of the reports, each once in a row."""

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path != "/api/v1/nodes/n1":
            raise ApiError(404, {"reason": "NotFound"})
        return {
            "metadata": {"name": "n1", "uid": "u1", "labels": self.labels},
            "status": {
                "nodeInfo": {"bootID": "b1"},
                "capacity": self.resources,
                "allocatable": self.resources,
            },
        }

    def patch(self, path: str, body: dict[str, Any], **options: str) -> dict[str, Any]:
        reason = body["report"]["reason"]
        if self.reports[-1:] != [reason]:
            self.reports.append(reason)
        return body


@dataclass
class Agent:
    """The process in one container."""

    loop: NodeWatch
    clocks: Clocks
    stop: threading.Event

    def turns(self, count: int) -> int:
        """At most so many turns, with the pause after each; how many it took until it ended."""
        for done in range(count):
            if self.stop.is_set():
                return done
            self.clocks.sleep(self.loop.turn())
        return count


@dataclass
class Node:
    silicon: Any
    api: Api
    clocks: Clocks
    desired: Desired
    directory: Path
    setenv: Callable[[str, str], None]

    @contextmanager
    def container(
        self, kind: Container, mode: Mode, *, renews: bool = True, user: int | None = USER
    ) -> Iterator[Agent]:
        """The agent in a container that is created now."""
        found = container_runtime.devices(kind, state.load(self.silicon.path), mode)
        assert found is not None
        self.setenv(device_nodes.VARIABLE, str(self._dev(found)))
        prober = self.silicon.prober(user=user)
        stop = threading.Event()
        renewal = Renewal(
            self.desired,
            end=stop.set,
            memory=RestartMemory(self.directory),
            driver_loaded=lambda: True,
        )
        loop = NodeWatch(
            self.desired,
            prober,
            cast(Client, self.api),
            "n1",
            metrics=Metrics(self.desired),
            health=Health(stall_after_s=30, stale_after_s=30, clock=self.clocks.monotonic),
            pace=Pace(),
            renewal=renewal if renews else None,
            clock=self.clocks.clock(),
        )
        try:
            yield Agent(loop, self.clocks, stop)
        finally:
            loop.close()
            prober.close()

    def _dev(self, nodes: Iterable[str]) -> Path:
        # Beside the GPUs: pytest keeps its own directories from other users.
        beside = self.silicon.path.parent
        dev = beside / f"dev-{sum(1 for _ in beside.glob('dev-*'))}"
        (dev / "nvidia-caps").mkdir(parents=True)
        for name in nodes:
            (dev / name).touch()
        return dev

    def partition(self) -> None:
        for index in range(2):
            state.recut(self.silicon.path, index, ["3g.40gb", "3g.40gb"])


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
    assert node.api.reports == ["NotPartitioned", "DeviceNodesOutdated", "PartitionsMatch"]


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
        state.recut(node.silicon.path, index, [])
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
