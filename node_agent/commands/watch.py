"""`slicewright-agent watch`: compares until it is stopped, on a Kubernetes node or on a host."""

from __future__ import annotations

import argparse
import gc
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slicewright.apis import desired_state
from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.exit_codes import OK, WrongUse
from slicewright.node_agent.commands.input_files import read_desired, read_layout
from slicewright.node_agent.commands.service import cannot_listen, listen_address, stop_on_signals
from slicewright.node_agent.nvml.prober import Prober

# Everything else is imported after the fork server is forked: before the process has threads, and
# before the API client fills the memory that every fork copies.
if TYPE_CHECKING:
    from slicewright.apis.desired_state import Desired
    from slicewright.kubeapi import Client
    from slicewright.node_agent.compute.prover import Prover
    from slicewright.node_agent.reporting.health import Health
    from slicewright.node_agent.reporting.metrics import Metrics
    from slicewright.node_agent.verdict.compute_gate import ComputeGate
    from slicewright.node_agent.verdict.renewal import Renewal
    from slicewright.node_agent.watch import Turning
    from slicewright.telemetry.endpoints import Endpoints

_PORT: Final = 9470
_API_TIMEOUT_S: Final = 10.0
_DRIVER_VERSION: Final = Path("/proc/driver/nvidia/version")
"""Exists in every container of the machine if the kernel module is loaded."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "watch",
        parents=[options.deadline(), options.layout()],
        help="compare until stopped: --desired as a pod, reporting to the cluster; else on a host",
    )
    options.add_desired(parser)
    options.add_service(parser, repeats="probes", port=_PORT)
    parser.add_argument(
        "--mig-config",
        default="",
        metavar="NAME",
        help="with --desired: its value of the label nvidia.com/mig.config, to report a node that "
        "waits for its layout change",
    )
    parser.add_argument(
        "--utilization",
        action="store_true",
        help="measure the utilization of partitions (Hopper and later)",
    )
    parser.add_argument(
        "--compute",
        action="store_true",
        help="with --desired: report no match of a node with the startup taint until CUDA has "
        "computed on every partition (needs libcuda)",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    if bool(parsed.desired) == bool(parsed.layout or parsed.file):
        raise WrongUse(
            "watch: give either --desired FILE (in a cluster) or a layout (LAYOUT or --file FILE)"
        )
    # The modules loaded from here on create no garbage before the loop begins.
    gc.disable()
    try:
        return _watch_node(parsed) if parsed.desired else _watch_host(parsed)
    finally:
        gc.enable()


def _watch_node(parsed: argparse.Namespace) -> int:
    desired = read_desired(parsed.desired)
    prover = _start_prover(parsed)
    node_name = os.environ.get("NODE_NAME")
    if not node_name:
        raise WrongUse(
            "watch: NODE_NAME is not set; set it to the name of this machine's Node (in a pod: "
            "fieldRef spec.nodeName)"
        )
    deadline_s = options.deadline_s(parsed, gpus=desired.gpu_count)
    prober = Prober.start(deadline_s=deadline_s, utilization=parsed.utilization)
    from slicewright.node_agent.reporting.metrics import Metrics
    from slicewright.node_agent.verdict.partitioning import Partitioning
    from slicewright.node_agent.watch import NodeWatch, Pace
    from slicewright.telemetry import log

    stop = stop_on_signals()
    log.start()
    client = _client()
    # A turn waits for one probe and at most three answers of the API server.
    health = _health(parsed, deadline_s, api_s=4 * _API_TIMEOUT_S)
    metrics = Metrics(desired)
    loop = NodeWatch(
        desired,
        prober,
        client,
        node_name,
        metrics=metrics,
        health=health,
        pace=Pace(interval_s=parsed.interval),
        renewal=_renewal(desired, stop),
        gate=_gate(prover),
        partitioning=Partitioning(driver_loaded=_DRIVER_VERSION.exists),
        mig_config=parsed.mig_config,
    )
    layout = desired_state.hash_of(desired)[:8]
    facts = {"node": node_name, "pool": desired.pool, "layout": layout}
    if prover:
        health.stall_after_s += prover.longest_s
    try:
        _serve_and_run(parsed, loop, prober, health, metrics, stop, **facts)
    finally:
        if prover:
            prover.close()
    log.info("stopped")
    return OK


def _health(parsed: argparse.Namespace, deadline_s: float, *, api_s: float = 0.0) -> Health:
    """deadline_s: the time limit of a probe.

    api_s: the longest time that a turn waits for the API server.
    """
    from slicewright.node_agent.reporting.health import Health

    return Health(
        stall_after_s=2 * deadline_s + api_s + parsed.interval,
        stale_after_s=deadline_s + 3 * parsed.interval,
    )


def _client() -> Client:
    from slicewright.kubeapi import Client, Unreachable

    try:
        return Client.in_cluster(timeout_s=_API_TIMEOUT_S, user_agent="slicewright-node-agent")
    except Unreachable as e:
        raise WrongUse(f"watch: {e}") from None


def _renewal(desired: Desired, stop: threading.Event) -> Renewal:
    from slicewright.node_agent.cluster.restart_memory import RestartMemory
    from slicewright.node_agent.verdict.renewal import Renewal

    return Renewal(
        desired, end=stop.set, memory=RestartMemory(), driver_loaded=_DRIVER_VERSION.exists
    )


def _start_prover(parsed: argparse.Namespace) -> Prover | None:
    """Forks the process that computes. Its modules are loaded only if it is wanted."""
    if not parsed.compute:
        return None
    from slicewright.node_agent.compute.prover import Prover

    return Prover.start(deadline_s=options.deadline_s(parsed))


def _gate(prover: Prover | None) -> ComputeGate | None:
    if prover is None:
        return None
    from slicewright.node_agent.cluster.proof_memory import ProofMemory
    from slicewright.node_agent.verdict.compute_gate import ComputeGate

    return ComputeGate(prove=prover.prove, memory=ProofMemory())


def _watch_host(parsed: argparse.Namespace) -> int:
    layout = read_layout(parsed)
    deadline_s = options.deadline_s(parsed)
    prober = Prober.start(deadline_s=deadline_s, utilization=parsed.utilization)
    from slicewright.node_agent.reporting.metrics import Metrics
    from slicewright.node_agent.verdict.verify import desired_of
    from slicewright.node_agent.watch import HostWatch, Pace
    from slicewright.telemetry import log

    stop = stop_on_signals()
    log.start()
    first = prober.probe()
    if not first.failure:
        # A GPU that never existed is wrong use. A GPU that disappears later is a finding.
        layout.resolve(first.uuids)
    health = _health(parsed, deadline_s)
    metrics = Metrics(desired_of({}, first))
    pace = Pace(interval_s=parsed.interval)
    loop = HostWatch(layout, prober, metrics=metrics, health=health, pace=pace)
    _serve_and_run(parsed, loop, prober, health, metrics, stop)
    return OK


def _serve_and_run(
    parsed: argparse.Namespace,
    loop: Turning,
    prober: Prober,
    health: Health,
    metrics: Metrics,
    stop: threading.Event,
    **facts: str,
) -> None:
    """Serves the endpoints and runs the loop until `stop`. facts: for the first log line."""
    from slicewright.node_agent.watch import run
    from slicewright.telemetry import log

    judged = threading.Event()
    server = _serve(parsed, health, metrics, judged)
    log.info("watching", **facts, http=server.host_and_port)
    try:
        run(loop, stop, judged)
    finally:
        server.shutdown()
        prober.close()


def _serve(
    parsed: argparse.Namespace, health: Health, metrics: Metrics, judged: threading.Event
) -> Endpoints:
    """Starts the endpoints. judged: set after the first verdict, which they would delay."""
    from slicewright.telemetry.endpoints import serve

    try:
        return serve(
            listen_address(),
            parsed.port,
            alive=health.alive,
            ready=health.ready,
            metrics=lambda: metrics.text,
            begin=judged,
        )
    except OSError as e:
        raise cannot_listen("watch", parsed.port, e) from None
