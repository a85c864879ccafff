"""`slicewright rollout`: how far a change of a pool's layout is; pause, abort or undo it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console

from fleet_controller.api import API_VERSION, POOL_PLURAL, ROLLOUT_ANNOTATION
from infra import spec
from kubeapi import ApiError, Unreachable
from kubeapi.client import path_of
from slicewright.commands import cluster_options
from slicewright.commands.status import exit_code, say, where
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, PROVEN
from slicewright.live.access import Access, NoCluster, why
from slicewright.live.asks import VERBS, Ask, Refused, Verb, ask
from slicewright.live.fleet import Fleet, PoolView, State
from slicewright.live.looking import CannotLook, look, looks
from slicewright.live.objects import POOL, UnreadObject, pools, shown
from slicewright.live.text import lines, log_lines

_TRIES = 5
"""The controller writes the status of a pool at any moment, which makes its version another."""
_MOST_UNREAD = 5
"""Objects that are named besides."""

_HELP = {
    "pause": "no further node is drained or changed; nodes that are drained stay cordoned",
    "resume": "go on after a pause or an abort; after an undo, change forward again",
    "abort": "as pause, and nodes that are drained go back into service as they are",
    "undo": "the nodes go back to the layout with which the pool was last verified",
}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rollout",
        help="how far the change of a pool's layout is; pause, resume, abort or undo it",
        description="The fleet controller changes the layout of nodes in service a few at a time "
        "(docs/reference/rollout.md). Pause, resume, abort and undo write the annotation "
        f"{ROLLOUT_ANNOTATION} of the GPUPool, which it obeys. An undo leaves the stack file as it "
        "is, and `pulumi up` fails until the file declares the layout that the nodes have.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    status = verbs.add_parser("status", help="how far it is; exits as `slicewright status` does")
    status.add_argument(
        "--wait", action="store_true", help="until it has ended, is stopped, or has failed"
    )
    _common(status)
    status.set_defaults(run=_status)
    for verb in VERBS:
        one = verbs.add_parser(verb, help=_HELP[verb])
        _common(one)
        one.set_defaults(run=_ask)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="POOL")
    cluster_options.add_arguments(parser)


def _status(parsed: argparse.Namespace, console: Console) -> int:
    command = "rollout status"
    try:
        access = cluster_options.access_of(parsed)
        fleet = look(access, {parsed.pool})
        _of(fleet, parsed.pool, access)
        if parsed.wait:
            fleet = _wait(access, parsed.pool, console)
    except (NoCluster, CannotLook) as e:
        return say(str(e), cluster_options.code_of(e), command=command)
    except Refused as e:
        return say(str(e), BAD_INPUT, command=command)
    said = lines(fleet, where=where(access), now=time.time(), width=console.width, every_node=False)
    for line in said:
        console.print(line, soft_wrap=True, highlight=False)
    return exit_code(fleet)


def _wait(access: Access, pool: str, console: Console) -> Fleet:
    """The state in which waiting helps no more. Raises CannotLook where the first look fails."""
    last: Fleet | None = None
    for seen in looks(lambda: look(access, {pool})):
        if isinstance(seen, CannotLook):
            console.print(spec.plain(str(seen)), markup=False, highlight=False)
            continue
        for line in log_lines(last, seen):
            console.print(spec.plain(line), markup=False, highlight=False, soft_wrap=True)
        last = seen
        if not seen.worst.waits:
            return seen
    raise AssertionError("looks() does not end")


def _ask(parsed: argparse.Namespace, console: Console) -> int:
    verb: Verb = parsed.verb
    command = f"rollout {verb}"
    access: Access | None = None
    try:
        access = cluster_options.access_of(parsed)
        done = asked(access, parsed.pool, verb)
    except (NoCluster, CannotLook) as e:
        return say(str(e), cluster_options.code_of(e), command=command)
    except Refused as e:
        return say(str(e), BAD_INPUT, command=command)
    except (ApiError, Unreachable) as e:
        assert access is not None, "without access nothing was asked"
        return say(why(e, access), CANNOT_RUN, command=command)
    for line in done.said:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return PROVEN


def asked(access: Access, name: str, verb: Verb) -> Ask:
    """Writes what is asked, unless the pool has changed since it was read: then it is read again.

    Raises NoCluster, CannotLook, Refused, ApiError or Unreachable.
    """
    path = path_of(API_VERSION, POOL_PLURAL, name)
    for left in reversed(range(_TRIES)):
        fleet = look(access, {name})
        pool = _of(fleet, name, access)
        version, now = _asked_now(access, access.client().get(path))
        wanted = ask(verb, pool, now)
        wanted = replace(wanted, said=(*wanted.said, *shown(fleet.unread, _MOST_UNREAD)))
        if wanted.value is None:
            return wanted
        patch = {
            "metadata": {
                "resourceVersion": version,
                "annotations": {ROLLOUT_ANNOTATION: wanted.value or None},
            }
        }
        try:
            access.client().patch(path, patch, kind="merge")
        except ApiError as e:
            if e.status != 409 or not left:
                raise
        else:
            return wanted
    raise AssertionError("the last try returns or raises")


def _asked_now(access: Access, raw: Mapping[str, Any]) -> tuple[str, str]:
    """The pool's version, and what is asked of its rollout. Raises CannotLook."""
    unread: list[UnreadObject] = []
    for _, pool in pools([raw], unread):
        return pool.version, pool.asked
    raise _unreadable(unread[0], access)


def _unreadable(pool: UnreadObject, access: Access) -> CannotLook:
    return CannotLook(
        f"{where(access)}: {pool}; nothing was changed. `pulumi up --refresh` writes it as the "
        "stack file has it"
    )


def _of(fleet: Fleet, name: str, access: Access) -> PoolView:
    """Raises Refused and CannotLook."""
    for one in fleet.unread:
        if (one.kind, one.name) == (POOL.name, name):
            raise _unreadable(one, access)
    (pool,) = fleet.pools
    if pool.state is State.MISSING:
        raise Refused(f"{where(access)} has no pool {name}; `slicewright status` names its pools")
    return pool
