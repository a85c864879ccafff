"""`slicewright status`: shows the pools of a cluster, their progress, and the next steps."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, DEGRADED, NOT_VERIFIED, VERIFIED
from slicewright.infra import stack_file
from slicewright.live.access import Access, NoCluster
from slicewright.live.looking import CannotLook, look, looks
from slicewright.live.output.fleet_json import as_json
from slicewright.live.output.text import lines, log_lines
from slicewright.live.views import Fleet, State
from slicewright.options import cluster_options


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "status",
        description="Reads the GPUPools, nodes and reports of a cluster, and shows for each pool "
        "its partitions, the verified, held and changing nodes, the pods that block a drain, and "
        "the next step. Only reads. Exits with 0 if every pool is verified, 1 while a pool is not "
        "yet verified or its rollout is stopped, 3 if an object cannot be read (it is named, and "
        "the others are shown), 4 if a pool needs intervention (docs/how-to/day-two.md).",
    )
    parser.add_argument("pools", nargs="*", metavar="POOL", help="default: all")
    parser.add_argument(
        "-s",
        "--stack",
        metavar="NAME",
        help="only the pools of the stack file Pulumi.NAME.yaml, or of a path; pools that are not "
        "in the cluster are shown as missing",
    )
    cluster_options.add_arguments(parser)
    parser.add_argument(
        "--all", action="store_true", help="list every node, including healthy ones"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="run until Ctrl-C: redraw on a terminal, else print a line for every change",
    )
    parser.add_argument(
        "--json", action="store_true", help="as JSON (docs/reference/status-json.md)"
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    try:
        stack = cluster_options.stack_of(parsed)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    names = {pool.name for pool in stack[1].pools} if stack else None
    if names is not None and (strange := sorted(set(parsed.pools) - names)):
        listed = ", ".join(sorted(names))
        return say(f"{parsed.stack} has no pool {', '.join(strange)}; it has {listed}", BAD_INPUT)
    selected = set(parsed.pools) or names
    try:
        access = cluster_options.access_of(parsed, stack)
        if parsed.watch:
            _watch(access, looks(lambda: look(access, selected)), parsed, console)
        fleet = look(access, selected)
    except (NoCluster, CannotLook) as e:
        return say(str(e), cluster_options.code_of(e))
    if stack is None and (unknown := absent(fleet)):
        return say(f"{location_text(access)} has no pool {', '.join(unknown)}", BAD_INPUT)
    if parsed.json:
        print(json.dumps(_json(fleet, access), indent=2))
    else:
        for line in _lines(fleet, access, parsed, console.width):
            console.print(line, soft_wrap=True, highlight=False)
    return exit_code(fleet)


def exit_code(fleet: Fleet) -> int:
    """Returns the exit code: CANNOT_RUN for unreadable objects, NOT_VERIFIED without a pool."""
    if fleet.unread:
        return CANNOT_RUN
    match fleet.worst:
        case State.VERIFIED:
            return VERIFIED if fleet.pools else NOT_VERIFIED
        case State.SETTING_UP | State.CHANGING | State.STOPPED | State.UNDONE:
            return NOT_VERIFIED
        case State.DEGRADED | State.MISSING:
            return DEGRADED


def absent(fleet: Fleet) -> list[str]:
    """Returns the named pools that do not exist."""
    return [pool.name for pool in fleet.pools if pool.state is State.MISSING]


def location_text(access: Access) -> str:
    return f"context {access.context.name} ({access.context.server})"


def say(text: str, code: int, *, command: str = "status") -> int:
    print(f"slicewright {command}: {stack_file.plain(text)}", file=sys.stderr)
    return code


def _json(fleet: Fleet, access: Access) -> dict[str, Any]:
    context = access.context
    return as_json(fleet, context=context.name, server=context.server, now=time.time())


def _lines(fleet: Fleet, access: Access, parsed: argparse.Namespace, width: int) -> list[Text]:
    return lines(
        fleet, where=location_text(access), now=time.time(), width=width, every_node=parsed.all
    )


def _watch(
    access: Access,
    each: Iterator[Fleet | CannotLook],
    parsed: argparse.Namespace,
    console: Console,
) -> None:
    """Shows each reading until it is interrupted. Raises CannotLook if the first one fails."""
    if parsed.json:
        _print_json_lines(access, each)
    elif console.is_terminal:
        _redraw(access, each, parsed, console)
    else:
        _print_log(each)


def _print_json_lines(access: Access, each: Iterator[Fleet | CannotLook]) -> None:
    last: Fleet | None = None
    for reading in each:
        if isinstance(reading, CannotLook):
            print(f"slicewright status: {stack_file.plain(str(reading))}", file=sys.stderr)
        elif reading != last:
            print(json.dumps(_json(reading, access)), flush=True)
            last = reading


def _print_log(each: Iterator[Fleet | CannotLook]) -> None:
    last: Fleet | None = None
    for reading in each:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if isinstance(reading, CannotLook):
            print(f"{at} {stack_file.plain(str(reading))}", flush=True)
            continue
        for line in log_lines(last, reading):
            print(f"{at} {stack_file.plain(line)}", flush=True)
        last = reading


def _redraw(
    access: Access,
    each: Iterator[Fleet | CannotLook],
    parsed: argparse.Namespace,
    console: Console,
) -> None:
    last_lines: list[Text] = []
    with _screen(console, last_lines) as live:
        for reading in each:
            if isinstance(reading, CannotLook):
                live.update(
                    Group(Text(stack_file.plain(str(reading)), style="red"), *last_lines),
                    refresh=True,
                )
                continue
            last_lines[:] = _lines(reading, access, parsed, console.width)
            live.update(Group(*last_lines), refresh=True)


@contextmanager
def _screen(console: Console, last_lines: list[Text]) -> Iterator[Live]:
    """Uses the terminal's alternate screen, and prints the last lines below the restored one."""
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield live
    finally:
        for line in last_lines:
            console.print(line, soft_wrap=True, highlight=False)
