"""`slicewright load`: sends requests to a workload's servers, and measures the answers."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from slicewright.commands.status import say
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import plan, stack_file
from slicewright.kubeapi import ApiError, Unreachable
from slicewright.live.access import NoCluster, error_message
from slicewright.load import engine, export, targets
from slicewright.load.load import Api, Load, Target
from slicewright.load.results import Results, results
from slicewright.load.text import as_json, summary_lines, table
from slicewright.options import cluster_options
from slicewright.options.ranges import duration, whole
from slicewright.processes.foreign_files import NotAFile, read_bytes, read_text
from slicewright.processes.foreign_json import NotReadable, read_object

_USERS: Final = 8
_MOST: Final = 100_000
"""The limit of users, of requests per second, and of tokens."""
_COMPLAINTS: Final = 5
"""Number of failure reasons that are shown."""
_COMPLAINT_LENGTH: Final = 300
_LARGEST_KEY: Final = 65536
_TELL_S: Final = 5
"""Interval of progress lines without a terminal."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "load",
        description="Sends requests to the servers of a workload with Locust: chat completions to "
        "vLLM, as streams, or inference requests to Triton. Prints the answered requests per "
        "second, the latency of answers, the time to the first token and the time per further "
        "token. Exits with 0 if every request was answered, else with 1 "
        "(docs/how-to/autoscale-a-model.md).",
    )
    parser.add_argument(
        "-s", "--stack", metavar="NAME", help="the stack, or a stack file", required=True
    )
    parser.add_argument(
        "workload", metavar="WORKLOAD", help="the workload's name in the stack file"
    )
    _add_pace(parser)
    _add_addresses(parser)
    parser.add_argument(
        "--model", metavar="NAME", help="name of the model (default: the workload's)"
    )
    parser.add_argument(
        "--tokens",
        type=whole(1, _MOST),
        default=64,
        metavar="N",
        help="tokens per answer (default: 64)",
    )
    parser.add_argument("--body", metavar="FILE", help="a request of your own, as JSON")
    parser.add_argument("--key-file", metavar="FILE", help="file with the server's API key")
    parser.add_argument(
        "--export",
        choices=export.TOOLS,
        help="send nothing: print a k6 script or an AIPerf command line that creates the same load",
    )
    cluster_options.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="as JSON (docs/reference/load-json.md)")
    parser.set_defaults(run=_run)


def _add_pace(parser: argparse.ArgumentParser) -> None:
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--users",
        type=whole(1, _MOST),
        metavar="N",
        help=f"concurrent users, each with one request in flight (default: {_USERS})",
    )
    pace.add_argument(
        "--rate",
        type=whole(1, _MOST),
        metavar="N",
        help="requests per second, regardless of answers",
    )
    parser.add_argument(
        "--duration",
        type=duration,
        default=30,
        metavar="TIME",
        help="length of the test, such as 5m (default: 30s)",
    )


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    addresses = parser.add_mutually_exclusive_group()
    addresses.add_argument(
        "--url",
        action="append",
        metavar="URL",
        help="address of the servers, instead of the Service's load balancer; may be repeated",
    )
    addresses.add_argument(
        "--pods",
        action="store_true",
        help="send to the pod address of each ready replica, and measure each replica; works "
        "only on machines in the pod network",
    )


def _run(parsed: argparse.Namespace, console: Console) -> int:
    try:
        stack = cluster_options.stack_of(parsed)
        assert stack is not None, "-s is required"
        load_of = _load(parsed, _workload(stack[1], parsed.workload))
        addresses = targets.given_targets(parsed.url or [])
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    except (_Wrong, targets.BadUrl) as e:
        return say(str(e), BAD_INPUT, command="load")
    try:
        if parsed.export:
            print(export.script(parsed.export, load_of(addresses or _targets(parsed, stack))))
            return VERIFIED
        engine.check_installed()
        load = load_of(addresses or _targets(parsed, stack))
        with _progress(console, quiet=parsed.json) as progress:
            ran = engine.run(load, progress)
    except export.NotSupported as e:
        return say(str(e), BAD_INPUT, command="load")
    except (engine.NoEngine, engine.EngineFailed, targets.NoAddress, NoCluster) as e:
        return say(str(e), CANNOT_RUN, command="load")
    return _report(parsed, load, ran, console)


def _report(parsed: argparse.Namespace, load: Load, ran: engine.Ran, console: Console) -> int:
    outcome = results(ran.outcomes, load, not_sent=ran.not_sent)
    if parsed.json:
        print(json.dumps(as_json(load, outcome, interrupted=ran.signal is not None), indent=2))
    else:
        _show(load, outcome, console)
    for reason in ran.failures[:_COMPLAINTS]:
        say(reason[:_COMPLAINT_LENGTH], NOT_VERIFIED, command="load")
    if ran.signal is not None:
        return 128 + ran.signal
    if not ran.complete:
        return say("the load engine was killed before the end", CANNOT_RUN, command="load")
    return exit_code(outcome)


def exit_code(measured: Results) -> int:
    """Returns VERIFIED if requests were answered and none failed or was dropped before sending."""
    carried = measured.whole.answered and not measured.whole.failed and not measured.dropped
    return VERIFIED if carried else NOT_VERIFIED


class _Wrong(Exception):
    """The load command cannot use an option or a workload."""


def _workload(fleet: plan.FleetPlan, name: str) -> plan.DeploymentPlan:
    servers = {workload.name: workload for workload in fleet.deployments}
    if name not in servers:
        listed = f"it has {', '.join(servers)}" if servers else "it has no serving workloads"
        raise _Wrong(f"the stack file has no serving workload {name}; {listed}")
    return servers[name]


def _load(
    parsed: argparse.Namespace, workload: plan.DeploymentPlan
) -> Callable[[tuple[Target, ...]], Load]:
    """Returns a function that builds the load for its targets. Raises _Wrong."""
    api: Api
    match workload.workload:
        case stack_file.VllmWorkload() as vllm:
            api = "chat"
            model = vllm.served_name or vllm.model.name or f"/cache/{vllm.model.path}"
        case stack_file.TritonWorkload() as triton:
            api, model = "infer", _model(triton)
        case stack_file.ContainerWorkload():
            raise _Wrong(
                f"{workload.name} is of kind container; load supports workloads of kind vllm and "
                "triton only"
            )
    model = parsed.model or model
    if not model:
        raise _Wrong(f"{workload.name} serves several models or none by name; add --model NAME")
    body, key = _body(parsed.body), _key(parsed.key_file)
    return lambda chosen: Load(
        workload=f"{workload.namespace}/{workload.name}",
        api=api,
        targets=chosen,
        duration_s=parsed.duration,
        users=None if parsed.rate else parsed.users or _USERS,
        rate=parsed.rate,
        model=model,
        tokens=parsed.tokens,
        body=body,
        key=key,
    )


def _model(workload: stack_file.TritonWorkload) -> str:
    """Returns the model that autoscaling follows, or the only listed model, or ""."""
    if workload.autoscaling is not None and workload.autoscaling.model:
        return workload.autoscaling.model
    return workload.load_models[0] if len(workload.load_models) == 1 else ""


def _targets(parsed: argparse.Namespace, stack: tuple[Path, plan.FleetPlan]) -> tuple[Target, ...]:
    """Returns the servers' addresses in the cluster. Raises targets.NoAddress, NoCluster."""
    access = cluster_options.access_of(parsed, stack)
    workload = _workload(stack[1], parsed.workload)
    find = targets.pod_targets if parsed.pods else targets.service_targets
    try:
        return find(access.client(), workload)
    except (ApiError, Unreachable) as e:
        raise NoCluster(error_message(e, access)) from None


def _body(file: str | None) -> Mapping[str, Any] | None:
    if file is None:
        return None
    try:
        return read_object(read_bytes(file), "a request: {…}")
    except (NotAFile, NotReadable) as e:
        raise _Wrong(f"--body {file}: {e}") from None


def _key(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        key = read_text(file, largest=_LARGEST_KEY).strip()
    except NotAFile as e:
        raise _Wrong(f"--key-file {file}: {e}") from None
    # Others cannot stand in a header. The message must not quote them.
    if not key or not key.isascii() or not key.isprintable():
        raise _Wrong(f"--key-file {file}: an API key must be one line of ASCII characters")
    return key


@contextmanager
def _progress(console: Console, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows progress as a changing line on a terminal, else as a line on stderr every few
    seconds, so that it never mixes with the JSON on stdout.
    """
    if console.is_terminal and not quiet:
        with console.status("starting the load") as status:
            yield lambda text: status.update(stack_file.plain(text))
        return
    last_at = -_TELL_S * 1.0

    def tell(text: str) -> None:
        nonlocal last_at
        if time.monotonic() - last_at >= _TELL_S:
            last_at = time.monotonic()
            print(stack_file.plain(text), file=sys.stderr, flush=True)

    yield tell


def _show(load: Load, measured: Results, console: Console) -> None:
    for line in summary_lines(load, measured):
        console.print(stack_file.plain(line), markup=False, highlight=False, soft_wrap=True)
    if len(load.targets) > 1:
        console.print()
        console.print(table(load, measured))
