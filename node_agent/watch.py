"""The agent's loops: probe the GPUs, judge the observation, report the verdict.

`NodeWatch` runs on a Kubernetes node, `HostWatch` on a host without a cluster.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from slicewright.apis.desired_state import Desired, assigned_or_declared, hash_of
from slicewright.apis.layout import GpuLayout, Layout, LayoutError
from slicewright.kubeapi import Client
from slicewright.node_agent.cluster.backoff import Backoff
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.cluster.own_node import OwnNode
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.prober import Prober
from slicewright.node_agent.reporting import report
from slicewright.node_agent.reporting.health import Health
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.reporting.verdict_log import VerdictLog
from slicewright.node_agent.verdict import layout_change
from slicewright.node_agent.verdict.damping import Damper
from slicewright.node_agent.verdict.fabric_patience import FabricPatience
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.partitioning import Partitioning
from slicewright.node_agent.verdict.renewal import Renewal
from slicewright.node_agent.verdict.verify import (
    desired_of,
    verify,
    verify_layout,
)
from slicewright.node_agent.xids.gpu_probes import GpuProbes
from slicewright.node_agent.xids.kernel_log import KMSG
from slicewright.telemetry import log

# Few agents compute, and the others need not load ctypes.
if TYPE_CHECKING:
    from slicewright.node_agent.verdict.compute_gate import ComputeGate

_NODE_REUSES: Final = 5
"""Periods of `Pace.node_every_s` during which a matching agent reuses the last Node it read."""
_SHORTEST_PAUSE_S: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds on the monotonic clock: a jump of the wall clock changes no pause."""

    interval_s: float = 10.0
    quick_s: float = 1.0
    """Pause between turns while the node does not match and its verdict changed recently."""
    quick_for_s: float = 600.0
    """Time after its last change while a verdict other than Match is checked every `quick_s`."""
    node_every_s: float = 60.0
    """Interval at which a matching agent reads its Node: 2,000 agents share the API server. It is
    also the longest pause after an error.
    """
    thorough_every_s: float = 60.0
    """Interval at which health and memory in use are read, for the metrics."""


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The loop's two clocks, in seconds. Tests replace them."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Seconds since the epoch."""


class Turning(Protocol):
    """A loop that does one turn at a time."""

    def turn(self) -> float:
        """Does a turn and returns the seconds until the next turn. Raises ForkServerEnded."""

    def close(self) -> None: ...


def run(loop: Turning, stop: threading.Event, judged: threading.Event) -> None:
    """Takes turns until `stop` is set. Raises ForkServerEnded: the agent must be restarted.

    judged: set after the first turn.
    """
    # Objects loaded so far stay for ever: later garbage collections need not scan them.
    gc.freeze()
    gc.enable()  # the command line has disabled it
    try:
        while not stop.is_set():
            pause = loop.turn()
            judged.set()
            stop.wait(pause)
    finally:
        loop.close()


class NodeWatch:
    """Compares this node with its pool's desired state and writes its GPUNodeReport."""

    def __init__(
        self,
        desired: Desired,
        prober: Prober,
        client: Client,
        node_name: str,
        *,
        metrics: Metrics,
        health: Health,
        pace: Pace,
        renewal: Renewal | None = None,
        gate: ComputeGate | None = None,
        partitioning: Partitioning | None = None,
        mig_config: str = "",
        clock: Clock | None = None,
        kernel_log: Path = KMSG,
    ) -> None:
        """renewal: None keeps a container for ever, even if it misses GPUs. gate: None judges by
        NVML alone. partitioning: None probes while GKE partitions. mig_config: the value of the
        label nvidia.com/mig.config for `desired`, empty if unknown.
        """
        self._declared = desired
        self._assigned = ""
        self._desired = desired
        self._renewal = renewal
        self._gate = gate
        self._partitioning = partitioning or Partitioning()
        self._mig_config = mig_config
        self._layout_hash = hash_of(desired)
        self._metrics = metrics
        self._health = health
        self._pace = pace
        self._clock = clock or Clock()
        self._gpus = GpuProbes(
            prober,
            kernel_log,
            thorough_every_s=pace.thorough_every_s,
            monotonic=self._clock.monotonic,
        )
        self._reporter = report.Reporter(client, node_name)
        self._own_node = OwnNode(client, node_name, Backoff(longest_s=pace.node_every_s))
        self._node: NodeState | None = None
        """The Node to judge by, None if the API server has not answered for too long."""
        self._identity: NodeState | None = None
        """The last answer, however old, as the owner of the report."""
        self._node_read = float("-inf")
        self._fabric = FabricPatience()
        self._damper = Damper()
        self._verdicts = VerdictLog()
        self._verdict_changed = float("-inf")
        self._driver_hung_since: float | None = None

    def turn(self) -> float:
        """Does a turn: read the Node, probe, judge, report. Returns seconds until the next."""
        started = self._health.turned = self._clock.monotonic()
        self._read_node(started)
        waiting = self._partitioning.judge(self._desired, self._node, started)
        # The first verdict must not wait for a thorough probe.
        probe = (
            self._gpus.skip()
            if waiting
            else self._gpus.probe(allow_thorough=self._verdicts.last is not None)
        )
        probed, probed_at = self._clock.monotonic(), self._clock.wall()
        self._health.probed = probed
        judged = waiting or verify(self._desired, probe.observation, self._node)
        if judged.verdict != "Match" and self._own_node.requested_at != started:
            # The Node of the last match is older than this observation.
            self._ask_for_node(started)
            waiting = self._partitioning.judge(self._desired, self._node, started)
            if waiting:
                probe = replace(probe, observation=Observation())
            judged = waiting or verify(self._desired, probe.observation, self._node)
        judged = self._prove_and_renew(judged, probe.observation, started=started, at=probed)
        if self._node:
            judged = layout_change.or_pending(judged, self._desired, self._node, self._mig_config)
        judged = self._fabric.judge(judged, self._desired, probed)
        verdict = self._add_hung_since(self._damper.damp(judged, probed), probed_at)
        if self._verdicts.record(verdict):
            self._verdict_changed = probed
        self._metrics.update(
            probe.observation,
            verdict,
            self._node,
            took_s=probe.took_s,
            at=probed_at,
            thorough=probe.thorough,
            xid_log_up=self._gpus.xid_log_up,
        )
        self._report(verdict, probe.observation, started=started, at=probed_at)
        quick = (
            verdict.verdict != "Match" and probed - self._verdict_changed < self._pace.quick_for_s
        )
        pause = self._pace.quick_s if quick else self._pace.interval_s
        return max(_SHORTEST_PAUSE_S, pause - (self._clock.monotonic() - started))

    def close(self) -> None:
        self._gpus.close()

    def _prove_and_renew(
        self, judged: Verdict, observation: Observation, *, started: float, at: float
    ) -> Verdict:
        """Computes if the node waits for that, and ends the container if it is outdated. The proof
        comes first: only CUDA shows some device nodes that the container lacks.
        """
        nvml_matches, gate = judged.verdict == "Match", self._gate
        is_fresh = self._node_read == started
        if gate and self._node:
            if not gate.memory.load():
                gate.recall(self._reporter.last_proof(self._clock.wall()))
            judged = gate.consider(
                judged,
                observation,
                self._desired,
                self._node,
                self._clock.monotonic,
                node_is_fresh=is_fresh,
            )
        if self._renewal and self._node and is_fresh:
            judged = self._renewal.consider(
                judged,
                observation,
                self._node,
                at,
                nvml_matches=nvml_matches,
                cuda_refuses=gate is not None and gate.outdated_container,
            )
        return judged

    def _read_node(self, now: float) -> None:
        """A new match needs a fresh answer. An existing match survives an API server's restart.

        `_NODE_REUSES` limits how long.
        """
        if self._verdicts.last != "Match" or now - self._node_read >= self._pace.node_every_s:
            self._ask_for_node(now)

    def _ask_for_node(self, now: float) -> None:
        fresh = self._own_node.read(now)
        self._health.node_error = self._own_node.error
        if fresh is not None:
            self._node = self._identity = fresh
            self._node_read = now
            self._assign(fresh.assigned)
        elif (
            self._verdicts.last != "Match"
            or now - self._node_read >= _NODE_REUSES * self._pace.node_every_s
        ):
            self._node = None

    def _assign(self, assigned: str) -> None:
        """Sets the desired state: the controller's assignment to the node, or else the file.

        The agent cannot choose: the controller compares the hash in the report with the hash that
        it expects.
        """
        if assigned == self._assigned:
            return
        self._assigned = assigned
        self._desired = assigned_or_declared(assigned, self._declared)
        self._layout_hash = hash_of(self._desired)
        self._metrics.desired = self._desired
        if self._renewal:
            self._renewal.desired = self._desired
        log.info("layout to verify", assigned=bool(assigned), layout=self._layout_hash[:8])

    def _add_hung_since(self, verdict: Verdict, at: float) -> Verdict:
        """Adds when the driver stopped answering. An age would change on every probe."""
        if verdict.reason != "DriverHung":
            self._driver_hung_since = None
            return verdict
        self._driver_hung_since = self._driver_hung_since or at
        since = report.stamp(self._driver_hung_since)
        return replace(
            verdict, message=f"{verdict.message.removesuffix('.')} (silent since {since})."
        )

    def _report(
        self, verdict: Verdict, observation: Observation, *, started: float, at: float
    ) -> None:
        if self._identity is None:
            self._health.report_error = (
                f"this agent's Node could not be read: {self._own_node.error}"
            )
            return
        if verdict.reason == "NodeUnreadable" and self._own_node.requested_at != started:
            # An outage is reported only in a turn that meets it: after it, the Node is read
            # before a report is written.
            return
        body = report.body(
            verdict,
            observation,
            self._identity,
            pool=self._desired.pool,
            layout_hash=self._layout_hash,
            at=at,
            proof=self._gate.record if self._gate else None,
        )
        error_before = self._reporter.last_error
        if self._reporter.write(body, now=at, after=self._identity.reports_after):
            self._metrics.count_report(written=True)
        elif self._reporter.last_error and self._reporter.last_error != error_before:
            self._metrics.count_report(written=False)
            log.warning("report not written", error=self._reporter.last_error)
        self._health.report_error = self._reporter.last_error


class HostWatch:
    """Compares the GPUs of a host with a layout. The verdict goes to the log and the metrics."""

    def __init__(
        self,
        layout: Layout,
        prober: Prober,
        *,
        metrics: Metrics,
        health: Health,
        pace: Pace,
        clock: Clock | None = None,
        kernel_log: Path = KMSG,
    ) -> None:
        self._layout = layout
        self._metrics = metrics
        self._health = health
        self._pace = pace
        self._clock = clock or Clock()
        self._gpus = GpuProbes(
            prober,
            kernel_log,
            thorough_every_s=pace.thorough_every_s,
            monotonic=self._clock.monotonic,
        )
        self._damper = Damper()
        self._verdicts = VerdictLog()
        self._layouts: dict[int, GpuLayout] = {}
        self._layout_problem: str | None = None

    def turn(self) -> float:
        """Does a turn: probe, judge, log, export. Returns seconds until the next turn."""
        started = self._health.turned = self._clock.monotonic()
        # The first verdict must not wait for a thorough probe.
        probe = self._gpus.probe(allow_thorough=self._verdicts.last is not None)
        observation = probe.observation
        probed, probed_at = self._clock.monotonic(), self._clock.wall()
        self._health.probed, self._health.report_error = probed, None
        if not observation.failure:
            self._resolve_layout(observation)
            self._metrics.desired = desired_of(self._layouts, observation)
        verdict = self._damper.damp(verify_layout(self._layout, self._layouts, observation), probed)
        self._verdicts.record(verdict)
        self._metrics.update(
            replace(
                observation,
                gpus=tuple(gpu for gpu in observation.gpus if gpu.index in self._layouts),
            ),
            verdict,
            None,
            took_s=probe.took_s,
            at=probed_at,
            thorough=probe.thorough,
            xid_log_up=self._gpus.xid_log_up,
        )
        return max(_SHORTEST_PAUSE_S, self._pace.interval_s - (self._clock.monotonic() - started))

    def close(self) -> None:
        self._gpus.close()

    def _resolve_layout(self, observation: Observation) -> None:
        """Finds the GPUs that the layout names. If a GPU has gone, the last result is kept."""
        try:
            self._layouts = self._layout.resolve(observation.uuids)
            self._layout_problem = None
        except LayoutError as e:
            if str(e) != self._layout_problem:
                self._layout_problem = str(e)
                log.warning("layout", problem=self._layout_problem)
