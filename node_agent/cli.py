"""The command `slicewright-agent`, which is also what the agent's pod runs.

Exit codes of `verify`: 0 the node is as desired, 1 it is not, 2 nobody could tell, or the question
was wrong. `show`: 0, or 2 where the driver does not answer. `apply` and `clear`: 0 as wanted, 1
refused or undone, 2 the question was wrong, 4 a reset or reboot is needed, 5 could not be put back.
`watch` runs until SIGTERM or SIGINT (0); 2 where it cannot start, 3 where it lost the process that
looks at the GPUs and must be started anew.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from node_agent import VERSION
from node_agent import desired as desired_file
from node_agent.layout import LayoutError
from node_agent.nvml.prober import ForkServerEnded, Prober

if TYPE_CHECKING:
    from node_agent.cluster.node import NodeState
    from node_agent.desired import Desired
    from node_agent.layout import Layout
    from node_agent.nvml.observed import Observation, ObservedGpu

MATCH, MISMATCH, UNKNOWN, START_ANEW = 0, 1, 2, 3
PORT, ATTRIBUTION_PORT = 9470, 9472
_API_TIMEOUT_S = 10.0


class _Problem(Exception):
    """One clear message for the person who called."""


def main(arguments: Sequence[str] | None = None) -> int:
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
    except (_Problem, desired_file.DesiredError, LayoutError) as e:
        print(
            "\n".join(f"slicewright-agent: {line}" for line in str(e).splitlines()), file=sys.stderr
        )
        return UNKNOWN
    except ForkServerEnded as e:
        print(f"slicewright-agent: {e}; start the agent anew", file=sys.stderr)
        return START_ANEW
    except BrokenPipeError:
        # `show | head`: the reader has what it wanted. Python would complain once more when it
        # flushes at the end.
        _forget_output()
        return 128 + signal.SIGPIPE
    except OSError as e:
        # A full disk behind `show > file`, above all.
        print(
            f"slicewright-agent: {e.filename or options.command}: {e.strerror or e}",
            file=sys.stderr,
        )
        _forget_output()
        return UNKNOWN
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _forget_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slicewright-agent", description="What the GPUs of this machine really are."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--deadline",
        type=_seconds,
        default=20.0,
        metavar="SECONDS",
        help="for one look (default 20)",
    )

    show = commands.add_parser("show", parents=[shared], help="show GPUs and partitions")
    show.add_argument(
        "address",
        nargs="?",
        metavar="UUID",
        help="only this GPU or MIG device, in either form of address",
    )
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything that was read, as JSON")
    form.add_argument(
        "--profiles",
        action="store_true",
        help="what the driver offers on each GPU, and where it can be",
    )
    form.add_argument(
        "--layout", action="store_true", help="what is there, in the words that `apply` takes"
    )

    layout = argparse.ArgumentParser(add_help=False)
    layout.add_argument(
        "layout",
        nargs="*",
        metavar="LAYOUT",
        help="GPUS:WHAT, as 2:3g.20gb@0,3g.20gb@4, all:1g.5gb*7 or 0-3:off",
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
        help="compare with a layout or a desired-state file; exit 0, 1 or 2",
    )
    verify.add_argument(
        "--desired", type=Path, metavar="FILE", help="the desired state of a pool's nodes"
    )
    verify.add_argument(
        "--silicon-only",
        action="store_true",
        help="leave out what the kubelet advertises (no Kubernetes here)",
    )

    change = argparse.ArgumentParser(add_help=False, parents=[shared])
    change.add_argument(
        "--dry-run", action="store_true", help="tell what would be done, and do nothing"
    )
    change.add_argument(
        "--wait",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="wait so long for a GPU in use (default: refuse at once)",
    )
    commands.add_parser(
        "apply", parents=[layout, change], help="cut GPUs of this host as a layout says (root)"
    )
    clear = commands.add_parser(
        "clear", parents=[change], help="make GPUs of this host whole again, MIG off (root)"
    )
    clear.add_argument(
        "gpus", nargs="*", metavar="GPU", help="number, range or GPU-<uuid> (default: all)"
    )

    watch = commands.add_parser(
        "watch",
        parents=[shared, layout],
        help="compare for ever: with --desired as a pod, reporting to the cluster; else on a host",
    )
    watch.add_argument(
        "--desired", type=Path, metavar="FILE", help="the desired state of this pool's nodes"
    )
    watch.add_argument(
        "--interval",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="between looks (default 10)",
    )
    watch.add_argument(
        "--port",
        type=int,
        default=PORT,
        help=f"of /healthz, /readyz, /metrics on POD_IP (default {PORT})",
    )
    watch.add_argument(
        "--utilization",
        action="store_true",
        help="measure how busy partitions are (Hopper and later)",
    )

    attribution = commands.add_parser(
        "attribution", help="tell Prometheus which pod holds which partition (root)"
    )
    attribution.add_argument(
        "--interval",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="between questions (default 10)",
    )
    attribution.add_argument(
        "--port",
        type=int,
        default=ATTRIBUTION_PORT,
        help=f"as of watch (default {ATTRIBUTION_PORT})",
    )
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 3600 seconds")
    return seconds


def _show(options: argparse.Namespace) -> int:
    from node_agent.display import show
    from node_agent.nvml import addresses, observed
    from node_agent.xids.history import XidHistory
    from node_agent.xids.kernel_log import KernelLog

    # A terminal that knows no box-drawing characters gets question marks, not a traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        address = addresses.parse(options.address) if options.address else None
    except addresses.InvalidAddress as e:
        raise _Problem(f"show: {e}") from None
    observation = _look(options.deadline, thorough=True)
    with KernelLog() as log:
        history = XidHistory()
        history.add(log.read(), old=True)
    observation = history.told(observation)
    if address and not observation.failure:
        found = addresses.find(address, observation)
        if found is None:
            raise _Problem(f"show: {options.address} is not on this machine")
        gpu, device = found
        if options.layout:
            raise _Problem("show: --layout is of the whole machine; leave out the address")
        if options.profiles:
            print(_profiles(observation, [gpu], options.deadline))
        else:
            print(observed.as_json(device or gpu) if options.json else show.device(gpu, device))
    elif options.profiles:
        print(_profiles(observation, observation.gpus, options.deadline))
    elif options.layout and not observation.failure:
        print(show.layout(observation))
    else:
        print(observed.dump(observation) if options.json else show.gpus(observation))
        if log.unreadable and not options.json:
            print(f"\nXids are not told here: {log.unreadable}")
    return UNKNOWN if observation.failure else MATCH


def _profiles(observation: Observation, gpus: Sequence[ObservedGpu], deadline_s: float) -> str:
    from node_agent.host import commands as host
    from node_agent.host.transaction import NvmlCallFailed

    try:
        return host.profiles(observation, gpus, deadline_s=deadline_s)
    except NvmlCallFailed as e:
        raise _Problem(f"show: {e}") from None


def _verify(options: argparse.Namespace) -> int:
    from node_agent.display import show
    from node_agent.verdict import verify

    if bool(options.desired) == bool(options.layout or options.file):
        raise _Problem("verify: say either --desired FILE, or a layout (LAYOUT or --file)")
    if options.desired:
        desired = _read_desired(options.desired)
        observation = _look(options.deadline)
        node = None if options.silicon_only else _own_node()
        judged = verify.verify(desired, observation, node, silicon_only=options.silicon_only)
    else:
        layout = _read_layout(options)
        observation = _look(options.deadline)
        wanted = (
            {}
            if observation.failure
            else layout.of({gpu.index: gpu.uuid or "" for gpu in observation.gpus})
        )
        judged = verify.verify_layout(layout, wanted, observation)
    print(show.verdict(judged))
    return {"Match": MATCH, "Mismatch": MISMATCH, "Unknown": UNKNOWN}[judged.verdict]


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
    from node_agent.layout import parse

    gpus = ",".join(options.gpus) or "all"
    layout = parse([f"{gpus}:off"], source="clear")
    return host.apply(
        layout, deadline_s=options.deadline, dry_run=options.dry_run, wait_s=options.wait
    )


def _read_layout(options: argparse.Namespace) -> Layout:
    from node_agent.layout import parse

    if bool(options.layout) == bool(options.file):
        raise _Problem(
            f"{options.command}: say either LAYOUT (for example 2:3g.20gb@0,3g.20gb@4) or "
            "--file FILE"
        )
    if options.layout:
        return parse(options.layout)
    try:
        return parse([options.file.read_text(encoding="utf-8")], source=str(options.file))
    except OSError as e:
        raise _Problem(f"--file {options.file}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise _Problem(f"--file {options.file}: not UTF-8 text: {e.reason}") from None


def _watch(options: argparse.Namespace) -> int:
    if bool(options.desired) == bool(options.layout or options.file):
        raise _Problem(
            "watch: say either --desired FILE (in a cluster), or a layout (LAYOUT or --file)"
        )
    if not options.desired:
        return _watch_host(options)
    desired = _read_desired(options.desired)
    node_name = os.environ.get("NODE_NAME")
    if not node_name:
        raise _Problem(
            "watch: NODE_NAME is not set; it is the name of the Node that this machine is "
            "(fieldRef spec.nodeName)"
        )
    # First of all: the lookout must be forked before there are threads and before Kubernetes'
    # client fills the memory.
    prober = Prober.start(deadline_s=options.deadline, busy=options.utilization)
    from kubeapi import Client, Unreachable
    from node_agent.reporting.health import Health
    from node_agent.reporting.metrics import Metrics
    from node_agent.watch import Pace, watch
    from telemetry import log
    from telemetry.endpoints import serve

    stop = _stopped_by_signals()
    log.start()
    try:
        client = Client.in_cluster(timeout_s=_API_TIMEOUT_S, user_agent="slicewright-node-agent")
    except Unreachable as e:
        raise _Problem(f"watch: {e}") from None
    pace = Pace(interval_s=options.interval)
    # A turn waits for the look and for three answers of the API server at most.
    health = Health(
        stall_after_s=2 * options.deadline + 4 * _API_TIMEOUT_S + options.interval,
        stale_after_s=options.deadline + 3 * options.interval,
    )
    numbers = Metrics(desired)
    address = os.environ.get("POD_IP", "127.0.0.1")
    try:
        server = serve(
            address,
            options.port,
            alive=health.alive,
            ready=health.ready,
            metrics=lambda: numbers.text,
        )
    except OSError as e:
        raise _Problem(
            f"watch: cannot listen on {address}:{options.port}: {e.strerror or e}"
        ) from None
    log.info(
        "watching",
        node=node_name,
        pool=desired.pool,
        layout=desired_file.hash_of(desired)[:8],
        http=f"{address}:{options.port}",
    )
    try:
        watch(
            desired, prober, client, node_name, numbers=numbers, health=health, pace=pace, stop=stop
        )
    finally:
        server.shutdown()
        prober.close()
    log.info("stopped")
    return MATCH


def _watch_host(options: argparse.Namespace) -> int:
    layout = _read_layout(options)
    prober = Prober.start(deadline_s=options.deadline, busy=options.utilization)
    from node_agent.reporting.health import Health
    from node_agent.reporting.metrics import Metrics
    from node_agent.verdict.verify import desired_of
    from node_agent.watch import Pace, watch_host
    from telemetry import log
    from telemetry.endpoints import serve

    stop = _stopped_by_signals()
    log.start()
    first = prober.probe()
    if not first.failure:
        layout.of(
            {gpu.index: gpu.uuid or "" for gpu in first.gpus}
        )  # a GPU that never was is a mistake, not a finding
    health = Health(
        stall_after_s=2 * options.deadline + options.interval,
        stale_after_s=options.deadline + 3 * options.interval,
    )
    numbers = Metrics(desired_of({}, first))
    address = os.environ.get("POD_IP", "127.0.0.1")
    try:
        server = serve(
            address,
            options.port,
            alive=health.alive,
            ready=health.ready,
            metrics=lambda: numbers.text,
        )
    except OSError as e:
        raise _Problem(
            f"watch: cannot listen on {address}:{options.port}: {e.strerror or e}"
        ) from None
    log.info("watching", http=f"{address}:{server.server_port}")
    try:
        pace = Pace(interval_s=options.interval)
        watch_host(layout, prober, numbers=numbers, health=health, pace=pace, stop=stop)
    finally:
        server.shutdown()
        prober.close()
    return MATCH


def _attribution(options: argparse.Namespace) -> int:
    # A program of its own: nothing of the agent's is loaded, and the agent loads nothing of this.
    from node_agent.attribution import exporter as attribution
    from node_agent.attribution import pod_resources
    from telemetry import log

    stop = _stopped_by_signals()
    log.start()
    address = os.environ.get("POD_IP", "127.0.0.1")
    try:
        attribution.run(
            pod_resources.SOCKET,
            address=address,
            port=options.port,
            interval_s=options.interval,
            stop=stop,
        )
    except OSError as e:
        raise _Problem(
            f"attribution: cannot listen on {address}:{options.port}: {e.strerror or e}"
        ) from None
    return MATCH


def _stopped_by_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _look(deadline_s: float, *, thorough: bool = False) -> Observation:
    prober = Prober.start(deadline_s=deadline_s)
    try:
        return prober.probe(thorough=thorough)
    finally:
        prober.close()


def _own_node() -> NodeState:
    from kubeapi import ApiError, Client, Unreachable
    from kubeapi.client import path_of
    from node_agent.cluster.node import read

    name = os.environ.get("NODE_NAME")
    if not name:
        raise _Problem(
            "verify: NODE_NAME is not set; on a machine that is no Kubernetes node, say "
            "--silicon-only"
        )
    try:
        return read(
            Client.in_cluster(user_agent="slicewright-node-agent").get(path_of("v1", "nodes", name))
        )
    except (ApiError, Unreachable) as e:
        raise _Problem(f"verify: Node {name!r} cannot be read: {e}") from None


def _read_desired(path: Path) -> Desired:
    try:
        return desired_file.parse(path.read_text(encoding="utf-8"), source=str(path))
    except OSError as e:
        raise _Problem(f"--desired {path}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise _Problem(f"--desired {path}: not UTF-8 text: {e.reason}") from None
