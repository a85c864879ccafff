"""The agent's loop: ask for the own Node, look, judge, report; quickly until the node matches, then
at leisure.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from kubeapi import Client
from node_agent.cluster.backoff import Backoff
from node_agent.cluster.node import NodeState
from node_agent.cluster.own_node import OwnNode
from node_agent.desired import Desired, hash_of
from node_agent.layout import GpuLayout, Layout, LayoutError
from node_agent.nvml.observed import Observation
from node_agent.nvml.prober import Prober
from node_agent.reporting import report
from node_agent.reporting.health import Health
from node_agent.reporting.metrics import Metrics
from node_agent.verdict.damping import Damper
from node_agent.verdict.verify import (
    Verdict,
    desired_of,
    partitioning_in_progress,
    verify,
    verify_layout,
)
from node_agent.xids.kernel_log import KMSG
from node_agent.xids.xid_watch import XidWatch
from telemetry import log

_NODE_KEPT = 5
"""Intervals for which the last answer about the own Node stands while a matching agent gets no
newer one.
"""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds. All on the monotonic clock, so that a jump of the wall clock changes nothing."""

    interval_s: float = 10.0
    quick_s: float = 1.0
    """While the node does not match and something changed lately: somebody waits for it."""
    quick_for_s: float = 600.0
    """How long after the last change a node that does not match is still looked at quickly."""
    node_every_s: float = 60.0
    """How often a matching node's own Node object is read: 2,000 agents share the API server.
    Errors make no longer pause.
    """
    thorough_every_s: float = 60.0
    """How often health and memory in use are looked at, for the metrics."""


def watch(
    desired: Desired,
    prober: Prober,
    client: Client,
    node_name: str,
    *,
    numbers: Metrics,
    health: Health,
    pace: Pace,
    stop: threading.Event,
    kernel_log: Path = KMSG,
) -> None:
    """Until `stop` is set. Raises ForkServerEnded, after which the agent must be started anew."""
    reporter = report.Reporter(client, node_name)
    own = OwnNode(client, node_name, Backoff(longest_s=pace.node_every_s))
    layout_hash = hash_of(desired)
    node: NodeState | None = None
    identity: NodeState | None = None
    node_read = changed = looked_thoroughly = float("-inf")
    damper = Damper()
    xids = XidWatch(kernel_log)
    unmeasured: set[str] = set()
    said: tuple[str, str] | None = None
    driver_silent_since: float | None = None
    while not stop.is_set():
        started = time.monotonic()
        health.turned = started
        matched = said is not None and said[0] == "Match"
        # A match is given on a fresh answer only; one that stands outlives an API server that is
        # being restarted.
        if not matched or started - node_read >= pace.node_every_s:
            fresh = own.ask(started)
            if fresh is not None:
                node = identity = fresh
                node_read = started
            elif not matched or started - node_read >= _NODE_KEPT * pace.node_every_s:
                node = None
        began = time.monotonic()
        waiting = partitioning_in_progress(desired, node)
        hurt = xids.news()
        # Not at first: the first word is waited for.
        thorough = (
            said is not None
            and not waiting
            and (hurt or began - looked_thoroughly >= pace.thorough_every_s)
        )
        observation = Observation() if waiting else xids.told(prober.probe(thorough=thorough))
        _tell_unmeasured(observation, unmeasured)
        looked, looked_at = time.monotonic(), time.time()
        looked_thoroughly = began if thorough else looked_thoroughly
        health.looked = looked
        verdict = damper.told(waiting or verify(desired, observation, node), looked)
        if verdict.reason == "DriverHung":
            driver_silent_since = driver_silent_since or looked_at
            verdict = _since(verdict, driver_silent_since)
        else:
            driver_silent_since = None
        if said != (verdict.verdict, verdict.message):
            said, changed = (verdict.verdict, verdict.message), looked
            log.info(
                "verdict", verdict=verdict.verdict, reason=verdict.reason, message=verdict.message
            )
        took_s = None if waiting else looked - began
        numbers.update(
            observation,
            verdict,
            node,
            took_s=took_s,
            at=looked_at,
            thorough=thorough,
            xid_log_up=xids.up,
        )
        if identity is None:
            health.report_error = f"the own Node could not be read: {own.error}"
        elif verdict.reason != "NodeUnreadable" or own.asked_at == started:
            # An outage is told only in a turn that has just met it: when it is over, the Node is
            # read before anything is written.
            words = report.body(
                verdict,
                observation,
                identity,
                pool=desired.pool,
                layout_hash=layout_hash,
                at=looked_at,
            )
            report_error = reporter.last_error
            if reporter.write(words, now=looked_at):
                numbers.count_report(written=True)
            elif reporter.last_error and reporter.last_error != report_error:
                numbers.count_report(written=False)
                log.warning("report not written", error=reporter.last_error)
            health.report_error = reporter.last_error
        quick = verdict.verdict != "Match" and looked - changed < pace.quick_for_s
        stop.wait(
            max(0.05, (pace.quick_s if quick else pace.interval_s) - (time.monotonic() - started))
        )
    xids.close()


def watch_host(
    layout: Layout,
    prober: Prober,
    *,
    numbers: Metrics,
    health: Health,
    pace: Pace,
    stop: threading.Event,
    kernel_log: Path = KMSG,
) -> None:
    """The same without a cluster: the verdict goes to the log and the metrics. Raises
    ForkServerEnded.
    """
    damper = Damper()
    xids = XidWatch(kernel_log)
    unmeasured: set[str] = set()
    looked_thoroughly = float("-inf")
    said: tuple[str, str] | None = None
    wanted: dict[int, GpuLayout] = {}
    problem: str | None = None
    while not stop.is_set():
        began = health.turned = time.monotonic()
        thorough = xids.news() or began - looked_thoroughly >= pace.thorough_every_s
        observation = xids.told(prober.probe(thorough=thorough))
        _tell_unmeasured(observation, unmeasured)
        looked_thoroughly = began if thorough else looked_thoroughly
        health.looked, looked_at = time.monotonic(), time.time()
        health.report_error = None
        if not observation.failure:
            try:
                wanted, problem = (
                    layout.of({gpu.index: gpu.uuid or "" for gpu in observation.gpus}),
                    None,
                )
            except LayoutError as e:
                # A GPU that was there may have gone: then the last known layout is judged, which
                # finds it missing.
                if str(e) != problem:
                    problem = str(e)
                    log.warning("layout", problem=problem)
        verdict = damper.told(verify_layout(layout, wanted, observation), health.looked)
        if said != (verdict.verdict, verdict.message):
            said = (verdict.verdict, verdict.message)
            log.info(
                "verdict", verdict=verdict.verdict, reason=verdict.reason, message=verdict.message
            )
        if not observation.failure:
            numbers.desired = desired_of(wanted, observation)
        named = replace(
            observation, gpus=tuple(gpu for gpu in observation.gpus if gpu.index in wanted)
        )
        took_s = health.looked - began
        numbers.update(
            named, verdict, None, took_s=took_s, at=looked_at, thorough=thorough, xid_log_up=xids.up
        )
        stop.wait(max(0.05, pace.interval_s - (time.monotonic() - began)))
    xids.close()


def _tell_unmeasured(observation: Observation, told: set[str]) -> None:
    """Each reason once: it will be the same every minute."""
    for gpu in observation.gpus:
        if (why := gpu.utilization_failure) and (words := f"{why.call}: {why.text}") not in told:
            told.add(words)
            log.warning("utilization not measured", gpu=gpu.index, why=words)


def _since(verdict: Verdict, at: float) -> Verdict:
    """A point in time and not an age: an age would be news at every look."""
    message = f"{verdict.message.removesuffix('.')} (silent since {report.stamp(at)})."
    return Verdict(
        verdict=verdict.verdict,
        reason=verdict.reason,
        message=message,
        checks=verdict.checks,
        instances=verdict.instances,
    )
