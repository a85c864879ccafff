"""A node whose agent runs in containers with the device nodes of their creation, over the fake
NVML.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from slicewright.apis.desired_state import Desired
from slicewright.kubeapi import ApiError, Client
from slicewright.node_agent.cluster.proof_memory import ProofMemory
from slicewright.node_agent.cluster.restart_memory import RestartMemory
from slicewright.node_agent.compute.prover import Prover
from slicewright.node_agent.reporting.health import Health
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.verdict.compute_gate import ComputeGate
from slicewright.node_agent.verdict.partitioning import Partitioning
from slicewright.node_agent.verdict.renewal import Renewal
from slicewright.node_agent.watch import NodeWatch, Pace
from slicewright.rehearsal.cluster.node import container_runtime
from slicewright.rehearsal.cluster.node.container_runtime import Container, Mode
from slicewright.rehearsal.cluster.silicon import device_nodes, device_rules, state
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
    boot: str = "b1"
    error: ApiError | None = None
    reports: list[str] = field(default_factory=list)
    """Reasons, in the order of the reports, each once in a row."""
    message: str = ""
    """Of the last report."""

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if self.error:
            raise self.error
        if path != "/api/v1/nodes/n1":
            raise ApiError(404, {"reason": "NotFound"})
        return {
            "metadata": {"name": "n1", "uid": "u1", "labels": self.labels},
            "status": {
                "nodeInfo": {"bootID": self.boot},
                "capacity": self.resources,
                "allocatable": self.resources,
            },
        }

    def patch(self, path: str, body: dict[str, Any], **options: str) -> dict[str, Any]:
        reason, self.message = body["report"]["reason"], body["report"]["message"]
        if self.reports[-1:] != [reason]:
            self.reports.append(reason)
        return body


@dataclass
class Agent:
    """The process in one container."""

    loop: NodeWatch
    clocks: Clocks
    stop: threading.Event
    metrics: Metrics

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
    driver_loaded: bool = True
    pace: Pace = field(default_factory=Pace)
    second: Any = None
    """The GPU that is not there."""
    dev: Path = Path()
    """/dev of the last container."""

    @contextmanager
    def container(
        self,
        kind: Container,
        mode: Mode,
        *,
        renews: bool = True,
        user: int | None = USER,
        computes: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> Iterator[Agent]:
        """The agent in a container that is created now. without: device nodes that come later."""
        found = container_runtime.devices(kind, state.load(self.silicon.path), mode)
        assert found is not None
        found -= without
        if container_runtime.has_rules_of_hook(kind, mode):
            found |= {device_rules.marker(device_rules.times_written(self.silicon.path))}
        self.dev = self._dev(found)
        self.setenv(device_nodes.VARIABLE, str(self.dev))
        # As in the product: a prober that is started first would live until the prover's end.
        prover = Prover.start() if computes else None
        prober = self.silicon.prober(user=user)
        stop = threading.Event()
        renewal = Renewal(
            self.desired,
            end=stop.set,
            memory=RestartMemory(self.directory),
            driver_loaded=lambda: self.driver_loaded,
        )
        metrics = Metrics(self.desired)
        loop = NodeWatch(
            self.desired,
            prober,
            cast(Client, self.api),
            "n1",
            metrics=metrics,
            health=Health(stall_after_s=30, stale_after_s=30, clock=self.clocks.monotonic),
            pace=self.pace,
            renewal=renewal if renews else None,
            gate=ComputeGate(prover.prove, ProofMemory(self.directory)) if prover else None,
            partitioning=Partitioning(driver_loaded=lambda: self.driver_loaded),
            clock=self.clocks.clock(),
        )
        try:
            yield Agent(loop, self.clocks, stop, metrics)
        finally:
            loop.close()
            prober.close()
            if prover:
                prover.close()

    def _dev(self, nodes: Iterable[str]) -> Path:
        # Beside the GPUs: pytest keeps its own directories from other users.
        beside = self.silicon.path.parent
        dev = beside / f"dev-{sum(1 for _ in beside.glob('dev-*'))}"
        (dev / "nvidia-caps").mkdir(parents=True)
        for name in nodes:
            (dev / name).touch()
        return dev

    def reload_daemons(self) -> None:
        """`systemctl daemon-reload`: the container that runs now loses its devices."""
        device_rules.reload_daemon(self.silicon.path)

    def partition(self) -> None:
        for index in range(2):
            state.repartition(self.silicon.path, index, ["3g.40gb", "3g.40gb"])
