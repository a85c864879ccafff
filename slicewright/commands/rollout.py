"""`slicewright rollout`: shows, pauses, resumes, aborts or undoes a pool's layout change."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console

from slicewright.apis.names import API_VERSION, POOL_PLURAL, ROLLOUT_ANNOTATION
from slicewright.commands.status import exit_code, location_text, say
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, VERIFIED
from slicewright.infra import stack_file
from slicewright.kubeapi import ApiError, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.live.access import Access, NoCluster, error_message
from slicewright.live.annotation_change import (
    VERBS,
    AnnotationChange,
    Refused,
    Verb,
    derive_annotation,
)
from slicewright.live.looking import CannotLook, look, looks
from slicewright.live.objects import POOL, UnreadObject, lines_of, pools
from slicewright.live.output.fleet_json import as_json
from slicewright.live.output.text import lines, log_lines
from slicewright.live.views import Fleet, PoolView, State
from slicewright.options import cluster_options

_TRIES = 5
"""Attempts at a write, which fails if the controller has just written the pool's status."""
_MOST_UNREAD = 5
"""Number of unreadable objects that are listed."""

_HELP = {
    "pause": "stop draining and changing nodes; drained nodes stay cordoned",
    "resume": "continue after a pause or an abort; after an undo, apply the new layout again",
    "abort": "like pause, but put drained nodes back into service unchanged",
    "undo": "return the nodes to the layout that was last verified in the pool",
}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rollout",
        description="The fleet controller changes the layout of nodes in service a few at a time "
        "(docs/reference/rollout.md). Pause, resume, abort and undo set the annotation "
        f"{ROLLOUT_ANNOTATION} of the GPUPool, which the controller obeys. An undo does not change "
        "the stack file, and `pulumi up` fails until the file declares the nodes' layout.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    status = verbs.add_parser(
        "status", help="show the progress; same exit codes as `slicewright status`"
    )
    status.add_argument(
        "--wait",
        action="store_true",
        help="wait until the rollout has ended, is stopped, or has failed",
    )
    status.add_argument(
        "--json",
        action="store_true",
        help="as JSON, in the form of `slicewright status` (docs/reference/status-json.md); "
        "progress goes to stderr",
    )
    _common(status)
    status.set_defaults(run=_status)
    for verb in VERBS:
        subparser = verbs.add_parser(verb, help=_HELP[verb])
        _common(subparser)
        subparser.set_defaults(run=_ask)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="POOL")
    cluster_options.add_arguments(parser)


def _status(parsed: argparse.Namespace, console: Console) -> int:
    command = "rollout status"
    try:
        access = cluster_options.access_of(parsed)
        fleet = look(access, {parsed.pool})
        _pool_of(fleet, parsed.pool, access)
        if parsed.wait:
            progress = Console(stderr=True, emoji=False) if parsed.json else console
            fleet = _wait(access, parsed.pool, progress)
    except (NoCluster, CannotLook) as e:
        return say(str(e), cluster_options.code_of(e), command=command)
    except Refused as e:
        return say(str(e), BAD_INPUT, command=command)
    if parsed.json:
        context = access.context
        written = as_json(fleet, context=context.name, server=context.server, now=time.time())
        print(json.dumps(written, indent=2))
        return exit_code(fleet)
    for line in lines(
        fleet, where=location_text(access), now=time.time(), width=console.width, every_node=False
    ):
        console.print(line, soft_wrap=True, highlight=False)
    return exit_code(fleet)


def _wait(access: Access, pool: str, console: Console) -> Fleet:
    """Waits until the state no longer changes on its own. Raises CannotLook if the first read
    fails.
    """
    last: Fleet | None = None
    for reading in looks(lambda: look(access, {pool})):
        if isinstance(reading, CannotLook):
            console.print(stack_file.plain(str(reading)), markup=False, highlight=False)
            continue
        for line in log_lines(last, reading):
            console.print(stack_file.plain(line), markup=False, highlight=False, soft_wrap=True)
        last = reading
        if not reading.worst.waits:
            return reading
    raise AssertionError("looks() does not end")


def _ask(parsed: argparse.Namespace, console: Console) -> int:
    verb: Verb = parsed.verb
    command = f"rollout {verb}"
    access: Access | None = None
    try:
        access = cluster_options.access_of(parsed)
        done = request_rollout(access, parsed.pool, verb)
    except (NoCluster, CannotLook) as e:
        return say(str(e), cluster_options.code_of(e), command=command)
    except Refused as e:
        return say(str(e), BAD_INPUT, command=command)
    except (ApiError, Unreachable) as e:
        assert access is not None, "without access nothing was asked"
        return say(error_message(e, access), CANNOT_RUN, command=command)
    for line in done.messages:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return VERIFIED


def request_rollout(access: Access, name: str, verb: Verb) -> AnnotationChange:
    """Writes the request, and reads the pool again if it has changed in the meantime.

    Raises NoCluster, CannotLook, Refused, ApiError or Unreachable.
    """
    path = path_of(API_VERSION, POOL_PLURAL, name)
    for remaining in reversed(range(_TRIES)):
        fleet = look(access, {name})
        pool = _pool_of(fleet, name, access)
        version, now = _current_request(access, access.client().get(path))
        request = derive_annotation(verb, pool, now)
        request = replace(
            request, messages=(*request.messages, *lines_of(fleet.unread, _MOST_UNREAD))
        )
        if request.value is None:
            return request
        patch = {
            "metadata": {
                "resourceVersion": version,
                "annotations": {ROLLOUT_ANNOTATION: request.value or None},
            }
        }
        try:
            access.client().patch(path, patch, kind="merge")
        except ApiError as e:
            if e.status != 409 or not remaining:
                raise
        else:
            return request
    raise AssertionError("the last try returns or raises")


def _current_request(access: Access, raw: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the pool's version, and the current request. Raises CannotLook."""
    unread: list[UnreadObject] = []
    for _, pool in pools([raw], unread):
        return pool.version, pool.rollout_request
    raise _unreadable(unread[0], access)


def _unreadable(pool: UnreadObject, access: Access) -> CannotLook:
    return CannotLook(
        f"{location_text(access)}: {pool}; nothing was changed. `pulumi up --refresh` writes it "
        "again from the stack file"
    )


def _pool_of(fleet: Fleet, name: str, access: Access) -> PoolView:
    """Returns the pool `name`. Raises Refused and CannotLook."""
    for unread in fleet.unread:
        if (unread.kind, unread.name) == (POOL.name, name):
            raise _unreadable(unread, access)
    (pool,) = fleet.pools
    if pool.state is State.MISSING:
        raise Refused(
            f"{location_text(access)} has no pool {name}; `slicewright status` lists the pools"
        )
    return pool
