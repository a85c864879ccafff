"""`slicewright status`: the pools of a cluster, what happens on them, and what to do."""

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

from infra import spec
from slicewright.commands import cluster_options
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, DEGRADED, NOT_PROVEN, PROVEN
from slicewright.live.access import Access, NoCluster
from slicewright.live.as_json import as_json
from slicewright.live.fleet import Fleet, State
from slicewright.live.looking import CannotLook, look, looks
from slicewright.live.text import lines, log_lines


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "status",
        help="the pools of a cluster: slices, what happens now, why it is stuck, what to do",
        description="Reads the GPUPools, nodes and reports of a cluster, and says of each pool "
        "how its GPUs are cut, which nodes are verified, held or changing, which pods hold a "
        "drain, and what to do next. It only reads. Exits with 0 where every pool is verified, 1 "
        "while one is not yet or its rollout is stopped, 3 where an object cannot be read (it is "
        "named, and the others are shown), 4 where a pool is wrong in a way that does not pass by "
        "itself (docs/how-to/day-two.md).",
    )
    parser.add_argument("pools", nargs="*", metavar="POOL", help="default: all")
    parser.add_argument(
        "-s",
        "--stack",
        metavar="NAME",
        help="only the pools of stacks/Pulumi.NAME.yaml, or of a stack file; those that the "
        "cluster lacks are shown as missing",
    )
    cluster_options.add_arguments(parser)
    parser.add_argument("--all", action="store_true", help="every node, also those in order")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on until Ctrl-C: redraws on a terminal; else a line for every change",
    )
    parser.add_argument(
        "--json", action="store_true", help="as JSON (docs/reference/status-json.md)"
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    try:
        stack = cluster_options.stack_of(parsed)
    except spec.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    names = {pool.name for pool in stack[1].pools} if stack else None
    if names is not None and (strange := sorted(set(parsed.pools) - names)):
        known = ", ".join(sorted(names))
        return say(f"{parsed.stack} has no pool {', '.join(strange)}; it has {known}", BAD_INPUT)
    wanted = set(parsed.pools) or names
    try:
        access = cluster_options.access_of(parsed, stack)
        if parsed.watch:
            _watch(access, looks(lambda: look(access, wanted)), parsed, console)
        fleet = look(access, wanted)
    except (NoCluster, CannotLook) as e:
        return say(str(e), cluster_options.code_of(e))
    if stack is None and (unknown := absent(fleet)):
        return say(f"{where(access)} has no pool {', '.join(unknown)}", BAD_INPUT)
    if parsed.json:
        print(json.dumps(_json(fleet, access), indent=2))
    else:
        for line in _lines(fleet, access, parsed, console.width):
            console.print(line, soft_wrap=True, highlight=False)
    return exit_code(fleet)


def exit_code(fleet: Fleet) -> int:
    """Without a pool nothing is verified. What is left out may be what matters."""
    if fleet.unread:
        return CANNOT_RUN
    match fleet.worst:
        case State.VERIFIED:
            return PROVEN if fleet.pools else NOT_PROVEN
        case State.SETTING_UP | State.CHANGING | State.STOPPED | State.UNDONE:
            return NOT_PROVEN
        case State.DEGRADED | State.MISSING:
            return DEGRADED


def absent(fleet: Fleet) -> list[str]:
    """Pools that were named and are not there."""
    return [pool.name for pool in fleet.pools if pool.state is State.MISSING]


def where(access: Access) -> str:
    return f"context {access.context.name} ({access.context.server})"


def say(text: str, code: int, *, command: str = "status") -> int:
    print(f"slicewright {command}: {spec.plain(text)}", file=sys.stderr)
    return code


def _json(fleet: Fleet, access: Access) -> dict[str, Any]:
    context = access.context
    return as_json(fleet, context=context.name, server=context.server, now=time.time())


def _lines(fleet: Fleet, access: Access, parsed: argparse.Namespace, width: int) -> list[Text]:
    return lines(fleet, where=where(access), now=time.time(), width=width, every_node=parsed.all)


def _watch(
    access: Access,
    each: Iterator[Fleet | CannotLook],
    parsed: argparse.Namespace,
    console: Console,
) -> None:
    """Shows one look after another until it is interrupted. Raises CannotLook where the first one
    fails.
    """
    if parsed.json:
        _as_json_lines(access, each)
    elif console.is_terminal:
        _redrawn(access, each, parsed, console)
    else:
        _as_log(each)


def _as_json_lines(access: Access, each: Iterator[Fleet | CannotLook]) -> None:
    last: Fleet | None = None
    for seen in each:
        if isinstance(seen, CannotLook):
            print(f"slicewright status: {spec.plain(str(seen))}", file=sys.stderr)
        elif seen != last:
            print(json.dumps(_json(seen, access)), flush=True)
            last = seen


def _as_log(each: Iterator[Fleet | CannotLook]) -> None:
    last: Fleet | None = None
    for seen in each:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if isinstance(seen, CannotLook):
            print(f"{at} {spec.plain(str(seen))}", flush=True)
            continue
        for line in log_lines(last, seen):
            print(f"{at} {spec.plain(line)}", flush=True)
        last = seen


def _redrawn(
    access: Access,
    each: Iterator[Fleet | CannotLook],
    parsed: argparse.Namespace,
    console: Console,
) -> None:
    shown: list[Text] = []
    with _screen(console, shown) as live:
        for seen in each:
            if isinstance(seen, CannotLook):
                live.update(Group(Text(spec.plain(str(seen)), style="red"), *shown), refresh=True)
                continue
            shown[:] = _lines(seen, access, parsed, console.width)
            live.update(Group(*shown), refresh=True)


@contextmanager
def _screen(console: Console, shown: list[Text]) -> Iterator[Live]:
    """The terminal's other screen, so that what was there before comes back; at the end what was
    shown last is written under it.
    """
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield live
    finally:
        for line in shown:
            console.print(line, soft_wrap=True, highlight=False)
