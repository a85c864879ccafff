"""The command `slicewright-agent`, which the agent's pod runs, too.

Exit codes, with 2 for wrong use. `verify`: 0 match, 1 mismatch, 2 unknown. `show`: 0, or 2
if the driver does not answer. `apply` and `clear`: 0 done, 1 refused or rolled back, 2 the
driver does not answer, 4 a GPU reset or reboot is needed, 5 the rollback failed. `watch`: 0 stopped
by SIGTERM or SIGINT, or (--desired) its container is outdated and the kubelet must create a new
one, 2 cannot start, 3 its fork server ended and it must be restarted.
"""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from apis import desired_state as desired_file
from apis.layout import WHOLE, LayoutError, parse_gpus
from apis.version import VERSION
from node_agent.nvml.prober import ForkServerEnded, Prober
from telemetry.plain import plain_stream

# Each command imports its other modules itself: the fork server must be forked before the process
# has threads, and while it is small.
if TYPE_CHECKING:
    from apis.desired_state import Desired
    from apis.layout import Layout
    from node_agent.cluster.node import NodeState
    from node_agent.nvml.addresses import Address
    from node_agent.nvml.observed import Observation, ObservedGpu
    from node_agent.reporting.health import Health
    from node_agent.reporting.metrics import Metrics
    from telemetry.endpoints import Endpoints

OK, MISMATCH, UNKNOWN, RESTART_NEEDED = 0, 1, 2, 3
WRONG_USE = 2
PORT, ATTRIBUTION_PORT = 9470, 9472
_API_TIMEOUT_S = 10.0
_LONGEST_WAIT_S = 24 * 3600
_DRIVER_VERSION = Path("/proc/driver/nvidia/version")
"""Exists in every container of the machine if the kernel module is loaded."""


class _WrongUse(Exception):
    """The command line is wrong. The message has the cause and the remedy."""


def main(arguments: Sequence[str] | None = None) -> int:
    # A terminal without box-drawing characters gets question marks, not a traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    with redirect_stdout(plain_stream(sys.stdout)), redirect_stderr(plain_stream(sys.stderr)):
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    commands = {
        "show": _show, "verify": _verify, "watch": _watch,
        "apply": _apply, "clear": _clear, "attribution": _attribution,
    }  # fmt: skip
    run = commands[options.command]
    try:
        code = run(options)
        sys.stdout.flush()
        return code
    except (_WrongUse, desired_file.DesiredError, LayoutError) as e:
        print(
            "\n".join(f"slicewright-agent: {line}" for line in str(e).splitlines()), file=sys.stderr
        )
        return WRONG_USE
    except ForkServerEnded as e:
        print(f"slicewright-agent: {e}; restart the agent", file=sys.stderr)
        return RESTART_NEEDED
    except BrokenPipeError:
        # `show | head`: the reader has closed the pipe, and another flush at exit would fail again.
        _discard_output()
        return 128 + signal.SIGPIPE
    except OSError as e:
        # For example a full disk with `show > file`.
        print(
            f"slicewright-agent: {e.filename or options.command}: {e.strerror or e}",
            file=sys.stderr,
        )
        _discard_output()
        return UNKNOWN
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slicewright-agent", description="Show, verify and partition this machine's GPUs."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--deadline",
        type=_seconds,
        default=20.0,
        metavar="SECONDS",
        help="time limit of one probe of the GPUs (default 20)",
    )

    show = commands.add_parser("show", parents=[shared], help="show GPUs and partitions")
    show.add_argument(
        "address",
        nargs="?",
        metavar="GPU",
        help="only these GPUs (2, 0-3, 0,2 or GPU-<uuid>) or this MIG device (MIG-<uuid>)",
    )
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything that was read, as JSON")
    form.add_argument(
        "--profiles",
        action="store_true",
        help="the profiles that each GPU offers, with their placements (placements: root)",
    )
    form.add_argument(
        "--layout",
        action="store_true",
        help="the current layout of the machine or these GPUs, by UUID, in the format of `apply`",
    )

    layout = argparse.ArgumentParser(add_help=False)
    layout.add_argument(
        "layout",
        nargs="*",
        metavar="LAYOUT",
        help="GPUS:WHAT, for example 2:3g.20gb@0,3g.20gb@4, all:1g.5gb*7 or 0-3:off",
    )
    layout.add_argument(
        "-f",
        "--file",
        type=Path,
        metavar="FILE",
        help="read the layout from a file, one clause per line",
    )

    verify = commands.add_parser(
        "verify",
        parents=[shared, layout],
        help="compare with a layout or a desired-state file (exit code 0, 1 or 2)",
    )
    verify.add_argument(
        "--desired", type=Path, metavar="FILE", help="the desired state of a pool's nodes"
    )
    verify.add_argument(
        "--silicon-only",
        action="store_true",
        help="do not check what the kubelet advertises (not a Kubernetes node)",
    )

    change = argparse.ArgumentParser(add_help=False, parents=[shared])
    change.add_argument(
        "--dry-run", action="store_true", help="print what would be done, and change nothing"
    )
    change.add_argument(
        "--wait",
        type=_wait_seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for a GPU in use, up to a day (default 0: refuse at once)",
    )
    commands.add_parser(
        "apply", parents=[layout, change], help="partition GPUs of this host by a layout (root)"
    )
    clear = commands.add_parser(
        "clear", parents=[change], help="turn MIG off on GPUs of this host (root)"
    )
    clear.add_argument("gpus", nargs="*", metavar="GPU", help="2, 0-3, GPU-<uuid>, or all")

    watch = commands.add_parser(
        "watch",
        parents=[shared, layout],
        help="compare until stopped: --desired as a pod, reporting to the cluster; else on a host",
    )
    watch.add_argument(
        "--desired", type=Path, metavar="FILE", help="the desired state of this pool's nodes"
    )
    watch.add_argument(
        "--interval",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="seconds between probes (default 10)",
    )
    watch.add_argument(
        "--port",
        type=int,
        default=PORT,
        help=f"port of /healthz, /readyz, /metrics on POD_IP (default {PORT})",
    )
    watch.add_argument(
        "--mig-config",
        default="",
        metavar="NAME",
        help="with --desired: its value of the label nvidia.com/mig.config, to report a node that "
        "waits for its layout change",
    )
    watch.add_argument(
        "--utilization",
        action="store_true",
        help="measure the utilization of partitions (Hopper and later)",
    )

    attribution = commands.add_parser(
        "attribution", help="export which pod uses which partition, for Prometheus (root)"
    )
    attribution.add_argument(
        "--interval",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="seconds between calls of the kubelet (default 10)",
    )
    attribution.add_argument(
        "--port",
        type=int,
        default=ATTRIBUTION_PORT,
        help=f"port of /healthz, /readyz, /metrics on POD_IP (default {ATTRIBUTION_PORT})",
    )
    return parser


def _seconds(text: str, least: float = 0.1, most: int = 3600) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not least <= seconds <= most:
        raise argparse.ArgumentTypeError(f"{text} must be between {least:g} and {most} seconds")
    return seconds


def _wait_seconds(text: str) -> float:
    """Seconds to wait for other processes, with the limit of a stack file's `in_use`."""
    return _seconds(text, least=0, most=_LONGEST_WAIT_S)


def _show(options: argparse.Namespace) -> int:
    from node_agent.display import show
    from node_agent.nvml import addresses, observed
    from node_agent.xids.history import XidHistory
    from node_agent.xids.kernel_log import KernelLog

    address = _address(options.address) if options.address else None
    observation = _probe(options.deadline, thorough=True)
    if observation.failure:
        print(observed.dump(observation) if options.json else show.gpus(observation))
        return UNKNOWN
    with KernelLog() as log:
        history = XidHistory()
        history.add(log.read(), old=True)
    observation = history.annotate(observation)
    if isinstance(address, addresses.Address):
        match = addresses.find(address, observation)
        if match is None:
            raise _WrongUse(f"show: {options.address} is not on this machine")
        gpu, device = match
        if device and options.layout:
            raise _WrongUse(
                f"show: --layout works on whole GPUs only; write {gpu.index} or {gpu.uuid}"
            )
        if device and not options.profiles:
            print(observed.as_json(device) if options.json else show.device(gpu, device))
            return OK
        chosen: Sequence[ObservedGpu] = [gpu]
    elif address is not None:
        indexes = address.of({gpu.index: gpu.uuid or "" for gpu in observation.gpus})
        chosen = [gpu for gpu in observation.gpus if gpu.index in indexes]
    else:
        chosen = observation.gpus
    if options.profiles:
        print(_profiles(chosen, options.deadline))
    elif options.layout:
        print(show.layout(chosen))
    elif options.json and address and len(chosen) == 1:
        print(observed.as_json(chosen[0]))
    elif options.json:
        print(observed.dump(replace(observation, gpus=tuple(chosen))))
    elif address:
        print(show.blocks(chosen))
    else:
        print(show.gpus(observation))
        if log.unreadable:
            print(f"\nXids cannot be read: {log.unreadable}")
    return OK


def _address(text: str) -> Address | Layout:
    """A GPU or MIG device by UUID, or GPUs by number."""
    from node_agent.nvml import addresses

    if (address := addresses.parse_or_none(text)) is not None:
        return address
    try:
        return parse_gpus(text, WHOLE)
    except LayoutError:
        raise _WrongUse(
            f"show: {text!r} names neither GPUs nor a MIG device; write GPUs as 2, 0-3 or "
            "GPU-<uuid>, a MIG device as MIG-<uuid> or "
            "MIG-GPU-<uuid>/<GPU instance>/<compute instance>"
        ) from None


def _profiles(gpus: Sequence[ObservedGpu], deadline_s: float) -> str:
    from node_agent.host import commands as host
    from node_agent.host.transaction import NvmlCallFailed

    try:
        return host.profiles(gpus, deadline_s=deadline_s)
    except NvmlCallFailed as e:
        raise _WrongUse(f"show: {e}") from None


def _verify(options: argparse.Namespace) -> int:
    from node_agent.display import show
    from node_agent.verdict import verify

    if bool(options.desired) == bool(options.layout or options.file):
        raise _WrongUse("verify: give either --desired FILE or a layout (LAYOUT or --file FILE)")
    if options.desired:
        desired = _read_desired(options.desired)
        observation = _probe(options.deadline)
        node = None if options.silicon_only else _read_own_node()
        judged = verify.verify(desired, observation, node, silicon_only=options.silicon_only)
    else:
        layout = _read_layout(options)
        observation = _probe(options.deadline)
        layouts = (
            {}
            if observation.failure
            else layout.of({gpu.index: gpu.uuid or "" for gpu in observation.gpus})
        )
        judged = verify.verify_layout(layout, layouts, observation)
    print(show.verdict(judged))
    return {"Match": OK, "Mismatch": MISMATCH, "Unknown": UNKNOWN}[judged.verdict]


def _apply(options: argparse.Namespace) -> int:
    from node_agent.host import commands as host

    return host.apply(
        _read_layout(options),
        deadline_s=options.deadline,
        dry_run=options.dry_run,
        wait_s=options.wait,
    )


def _clear(options: argparse.Namespace) -> int:
    from node_agent.host import commands as host

    if not options.gpus:
        raise _WrongUse(
            "clear: name the GPUs (2, 0-3 or GPU-<uuid>), or write `clear all` for every GPU"
        )
    return host.apply(
        parse_gpus(",".join(options.gpus), WHOLE, source="clear"),
        deadline_s=options.deadline,
        dry_run=options.dry_run,
        wait_s=options.wait,
    )


def _read_layout(options: argparse.Namespace) -> Layout:
    from apis.layout import parse

    if bool(options.layout) == bool(options.file):
        raise _WrongUse(
            f"{options.command}: give either LAYOUT (for example 2:3g.20gb@0,3g.20gb@4) or "
            "--file FILE"
        )
    if options.layout:
        return parse(options.layout)
    try:
        return parse([_read_text(options.file)], source=str(options.file))
    except OSError as e:
        raise _WrongUse(f"--file {options.file}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise _WrongUse(f"--file {options.file}: is not UTF-8 text: {e.reason}") from None


def _watch(options: argparse.Namespace) -> int:
    if bool(options.desired) == bool(options.layout or options.file):
        raise _WrongUse(
            "watch: give either --desired FILE (in a cluster) or a layout (LAYOUT or --file FILE)"
        )
    # The modules loaded from here on create no garbage before the loop begins.
    gc.disable()
    try:
        return _watch_node(options) if options.desired else _watch_host(options)
    finally:
        gc.enable()


def _watch_node(options: argparse.Namespace) -> int:
    desired = _read_desired(options.desired)
    node_name = os.environ.get("NODE_NAME")
    if not node_name:
        raise _WrongUse(
            "watch: NODE_NAME is not set; set it to the name of this machine's Node (in a pod: "
            "fieldRef spec.nodeName)"
        )
    # Comes first: the fork server must be forked before the process has threads, and before the
    # API client fills the memory that every fork copies.
    prober = Prober.start(deadline_s=options.deadline, utilization=options.utilization)
    from kubeapi import Client, Unreachable
    from node_agent.cluster.restart_memory import RestartMemory
    from node_agent.reporting.health import Health
    from node_agent.reporting.metrics import Metrics
    from node_agent.verdict.renewal import Renewal
    from node_agent.watch import NodeWatch, Pace, run
    from telemetry import log

    stop = _stop_on_signals()
    log.start()
    try:
        client = Client.in_cluster(timeout_s=_API_TIMEOUT_S, user_agent="slicewright-node-agent")
    except Unreachable as e:
        raise _WrongUse(f"watch: {e}") from None
    # A turn waits for one probe and at most three answers of the API server.
    health = Health(
        stall_after_s=2 * options.deadline + 4 * _API_TIMEOUT_S + options.interval,
        stale_after_s=options.deadline + 3 * options.interval,
    )
    metrics = Metrics(desired)
    judged = threading.Event()
    server = _serve(options, health, metrics, judged)
    log.info(
        "watching",
        node=node_name,
        pool=desired.pool,
        layout=desired_file.hash_of(desired)[:8],
        http=server.host_and_port,
    )
    renewal = Renewal(
        desired, end=stop.set, memory=RestartMemory(), driver_loaded=_DRIVER_VERSION.exists
    )
    loop = NodeWatch(
        desired,
        prober,
        client,
        node_name,
        metrics=metrics,
        health=health,
        pace=Pace(interval_s=options.interval),
        renewal=renewal,
        mig_config=options.mig_config,
    )
    try:
        run(loop, stop, judged)
    finally:
        server.shutdown()
        prober.close()
    log.info("stopped")
    return OK


def _watch_host(options: argparse.Namespace) -> int:
    layout = _read_layout(options)
    prober = Prober.start(deadline_s=options.deadline, utilization=options.utilization)
    from node_agent.reporting.health import Health
    from node_agent.reporting.metrics import Metrics
    from node_agent.verdict.verify import desired_of
    from node_agent.watch import HostWatch, Pace, run
    from telemetry import log

    stop = _stop_on_signals()
    log.start()
    first = prober.probe()
    if not first.failure:
        # A GPU that never existed is wrong use. A GPU that disappears later is a finding.
        layout.of({gpu.index: gpu.uuid or "" for gpu in first.gpus})
    health = Health(
        stall_after_s=2 * options.deadline + options.interval,
        stale_after_s=options.deadline + 3 * options.interval,
    )
    metrics = Metrics(desired_of({}, first))
    judged = threading.Event()
    server = _serve(options, health, metrics, judged)
    log.info("watching", http=server.host_and_port)
    pace = Pace(interval_s=options.interval)
    try:
        run(HostWatch(layout, prober, metrics=metrics, health=health, pace=pace), stop, judged)
    finally:
        server.shutdown()
        prober.close()
    return OK


def _serve(
    options: argparse.Namespace, health: Health, metrics: Metrics, judged: threading.Event
) -> Endpoints:
    """Starts the endpoints. judged: set after the first verdict, which they would delay."""
    from telemetry.endpoints import serve

    address = os.environ.get("POD_IP", "127.0.0.1")
    try:
        return serve(
            address,
            options.port,
            alive=health.alive,
            ready=health.ready,
            metrics=lambda: metrics.text,
            begin=judged,
        )
    except OSError as e:
        raise _WrongUse(
            f"watch: cannot listen on {address}:{options.port}: {e.strerror or e}"
        ) from None


def _attribution(options: argparse.Namespace) -> int:
    from node_agent.attribution import exporter, pod_resources
    from telemetry import log

    stop = _stop_on_signals()
    log.start()
    address = os.environ.get("POD_IP", "127.0.0.1")
    try:
        exporter.run(
            pod_resources.SOCKET,
            address=address,
            port=options.port,
            interval_s=options.interval,
            stop=stop,
        )
    except OSError as e:
        raise _WrongUse(
            f"attribution: cannot listen on {address}:{options.port}: {e.strerror or e}"
        ) from None
    return OK


def _stop_on_signals() -> threading.Event:
    from telemetry.signals import at_signal

    stop = threading.Event()
    at_signal(stop.set)
    return stop


def _probe(deadline_s: float, *, thorough: bool = False) -> Observation:
    prober = Prober.start(deadline_s=deadline_s)
    try:
        return prober.probe(thorough=thorough)
    finally:
        prober.close()


def _read_own_node() -> NodeState:
    from kubeapi import ApiError, Client, Unreachable
    from kubeapi.client import path_of
    from node_agent.cluster.node import read

    name = os.environ.get("NODE_NAME")
    if not name:
        raise _WrongUse(
            "verify: NODE_NAME is not set; on a machine that is not a Kubernetes node, add "
            "--silicon-only"
        )
    try:
        return read(
            Client.in_cluster(user_agent="slicewright-node-agent").get(path_of("v1", "nodes", name))
        )
    except (ApiError, Unreachable) as e:
        raise _WrongUse(f"verify: Node {name!r} cannot be read: {e}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _WrongUse(f"verify: the answer for Node {name!r} is not a valid Node") from None


def _read_text(path: Path) -> str:
    """The text of a user's file. Raises OSError, also for a file that is too large, and
    UnicodeDecodeError.
    """
    with path.open("rb") as file:
        text = file.read(desired_file.LARGEST + 1)
    if len(text) > desired_file.LARGEST:
        raise OSError(errno.EFBIG, f"is larger than {desired_file.LARGEST} bytes")
    return text.decode()


def _read_desired(path: Path) -> Desired:
    try:
        return desired_file.parse(_read_text(path), source=str(path))
    except OSError as e:
        raise _WrongUse(f"--desired {path}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise _WrongUse(f"--desired {path}: is not UTF-8 text: {e.reason}") from None
