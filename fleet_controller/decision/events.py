"""The Warning Events on pools, which `pulumi up` shows as they come. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewright.apis.names import MAX_FAILING_NODES, SETTLED
from slicewright.fleet_controller.decision.actions import EmitEvent, RetractEvent
from slicewright.fleet_controller.decision.facts import Facts
from slicewright.fleet_controller.decision.outcome import Outcome
from slicewright.fleet_controller.objects.bounds import seconds
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.warning_event import (
    PROGRESS,
    WarningEvent,
    progress_cause,
)
from slicewright.fleet_controller.pools.members import Member

REPEAT_WARNING_S = 1800.0
"""The API server deletes events after an hour (its flag --event-ttl)."""
PROGRESS_EVENT_INTERVAL_S = 10.0
"""Interval at which a waiting `pulumi up` shows its progress, if the cause has changed. It grows if
many pools wait.
"""
HEARTBEAT_S = 60.0
"""Interval at which it shows a cause that stays the same."""
PROGRESS_EVENTS_PER_SECOND = 2.5
"""Most such messages a second, for all pools. Each is a line on the terminal, and two requests."""
LONGEST_WAIT_S = 4 * 3600.0
"""Longest time that `pulumi up` waits: the limit of `verify_timeout_minutes`."""


def node_warning(pool: Pool, node: Node, reason: str, message: str, now: float) -> EmitEvent:
    return _event(pool, reason, f"node {node.name}: {message}", now)


def pool_warnings(
    pool: Pool, members: Sequence[Member], status: Mapping[str, Any], facts: Facts
) -> Outcome:
    """Returns the warnings about a pool and its nodes.

    status: the pool's new status.
    """
    # If a whole pool fails, its first nodes are enough: no one reads thousands of events.
    failing = [member for member in members if member.warns][:MAX_FAILING_NODES]
    nodes = tuple(
        node_warning(pool, m.node, m.assessment.reason, m.assessment.message, facts.now)
        for m in failing
    )
    no_undo = f"it cannot be undone: {pool.no_undo}"
    undo = (_event(pool, "UndoNotPossible", no_undo, facts.now),) if pool.no_undo else ()
    progress = _progress(pool, status, facts.progress_interval_s, facts.now)
    return progress._replace(warnings=(*nodes, *undo, *progress.warnings))


def progress_interval_s(pools: Iterable[Pool], now: float) -> float:
    """Returns the interval of progress Events, in seconds.

    Each step is twice the one before, so that few texts change when the number of waiting pools
    does.
    """
    waiting = sum(_waits(pool, now) for pool in pools)
    interval_s = PROGRESS_EVENT_INTERVAL_S
    while waiting > interval_s * PROGRESS_EVENTS_PER_SECOND:
        interval_s *= 2
    return interval_s


def decide_events(
    present: Mapping[str, WarningEvent],
    warnings: Iterable[EmitEvent],
    left_alone: Container[str],
    now: float,
) -> Outcome:
    """Writes warnings that are new or due again, and deletes warnings that no longer hold.

    present: the controller's Events in the cluster, by name.
    warnings: the Events that are to exist.
    left_alone: pools without a decision in this pass, so that their warnings stay.
    """
    recent = _recent_progress(present, now)
    by_name = {
        event.name: event for event in (_under_recent_name(event, recent) for event in warnings)
    }
    due_at = {name: _due_at(present.get(name), now) for name in by_name}
    emitted = tuple(event for name, event in by_name.items() if due_at[name] <= now)
    retracted = tuple(
        RetractEvent(name=name)
        for name in present
        if name not in by_name and name.rpartition(".")[0] not in left_alone
    )
    deadlines = tuple(at if at > now else now + REPEAT_WARNING_S for at in due_at.values())
    return Outcome(actions=(*emitted, *retracted), deadlines=deadlines)


def _recent_progress(
    present: Mapping[str, WarningEvent], now: float
) -> Mapping[tuple[str, str], str]:
    """Returns pool and cause -> the Event that has shown this progress less than a minute ago."""
    return {
        (event.name.rpartition(".")[0], event.progress): event.name
        for event in present.values()
        # Times are cut to whole seconds. One in the future is from somebody else's Event.
        if event.progress and 0 <= now - event.last_seen < HEARTBEAT_S - 1
    }


def _under_recent_name(event: EmitEvent, recent: Mapping[tuple[str, str], str]) -> EmitEvent:
    """Returns the Event, under the name of the one that has shown the same progress."""
    cause = progress_cause(event.reason, event.message)
    return replace(event, name=recent.get((event.pool, cause), event.name))


def _due_at(present: WarningEvent | None, now: float) -> float:
    # A time in the future is from somebody else's Event, and would keep ours from being written.
    return min(present.last_seen, now) + REPEAT_WARNING_S if present else now


def _event(
    pool: Pool, reason: str, message: str, now: float, *, identity: str | None = None
) -> EmitEvent:
    """Creates the Event.

    identity: the text that its name is derived from, so that it is written once. Its message by
    default.
    """
    digested = f"{pool.uid} {reason} {identity or message}"
    digest = hashlib.sha256(digested.encode(errors="surrogatepass")).hexdigest()
    return EmitEvent(
        name=f"{pool.name}.{digest[:16]}",
        pool=pool.name,
        pool_uid=pool.uid,
        reason=reason,
        message=message,
        now=now,
    )


def _waits(pool: Pool, now: float) -> bool:
    """True if a `pulumi up` may be waiting for the pool."""
    since = pool.status.get("waitingSince")
    return bool(since) and now - seconds(since) < LONGEST_WAIT_S


def _progress(pool: Pool, status: Mapping[str, Any], interval_s: float, now: float) -> Outcome:
    """Returns the Event that a waiting `pulumi up` shows, with another text after each interval.
    `decide_events` leaves out the texts that only the time would change.

    If a condition is False, the provider shows neither reason nor message, and every text only once
    (pulumi/pulumi-kubernetes #4428). It shows Warning Events as they come.
    """
    waiting_since = status.get("waitingSince")
    if not waiting_since or waiting_since != pool.status.get("waitingSince"):
        # It has settled, or the wait is not written down yet: the next pass sees it.
        return Outcome()
    if not _waits(pool, now):
        return Outcome()
    since = seconds(waiting_since)
    intervals = int((now - since) / interval_s)
    deadlines = (since + (intervals + 1) * interval_s,)
    if intervals < 1:
        return Outcome(deadlines=deadlines)
    (settled,) = (c for c in status["conditions"] if c["type"] == SETTLED)
    after = f"after {int(intervals * interval_s)} s"
    # All other messages can wait until the next time: every node that joins changes them.
    identity = f"{after} since {waiting_since}"
    message = f"{after}: {settled['message']}"
    event = _event(pool, PROGRESS, message, now, identity=identity)
    return Outcome(deadlines=deadlines, warnings=(event,))
