"""The nodes of a pool that wait for their change, and those that begin in this pass. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slicewright.apis.names import BUSY_STATES
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import Change
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.pool_target import has_layout

Assessed = tuple[Node, Assessment]


@dataclass(frozen=True, kw_only=True)
class Queue:
    """The nodes of a pool in a rollout."""

    pool: Pool
    members: Sequence[Assessed]
    """All nodes of the pool with their own assessments."""
    changes: Mapping[str, Change]
    """The changes that have begun, failed ones included, by node."""
    waiting: Sequence[Assessed]
    """The nodes whose change has not begun."""
    out: frozenset[str]
    """The nodes that serve no new pods."""

    @property
    def limit(self) -> int:
        """The number of nodes that may be out of service."""
        return self.pool.policy.limit(len(self.members))

    @property
    def failed(self) -> list[Change]:
        return [change for change in self.changes.values() if change.phase == "Failed"]

    @property
    def ready(self) -> list[Node]:
        """The waiting nodes that could begin now."""
        return [n for n, _ in self.waiting if n.ready and n.mig_state not in BUSY_STATES]

    def done(self) -> int:
        """Returns the number of verified nodes with the wanted layout and driver."""
        return sum(self._is_done(node, base) for node, base in self.members)

    def last_success(self) -> float:
        """Returns when the change of a node that is verified now last ended, or 0 if there is none.

        A node that was only silent or away since, and is verified again, shows nothing new.
        """
        return max(
            (node.changed_at for node, base in self.members if self._is_done(node, base)),
            default=0.0,
        )

    def _is_done(self, node: Node, base: Assessment) -> bool:
        verified = has_layout(node, self.pool) and base.status == "True"
        return verified and node.name not in self.changes


class Start(NamedTuple):
    """The nodes that begin in this pass."""

    nodes: tuple[Node, ...] = ()
    stopped: str = ""
    """Why the rollout does not go on, see `Rollout.stopped`."""
    blocking: tuple[str, ...] = ()
    """The nodes that are out, if the rollout is full."""


def start_next(queue: Queue) -> Start:
    """Returns the nodes that begin in this pass, or why none may."""
    stopped = _stop_reason(queue)
    if stopped:
        return Start(stopped=stopped)
    if not queue.waiting:
        return Start()
    nodes = _choose(queue)
    failed = len(queue.failed)
    if nodes or failed < len(queue.changes):
        return Start(nodes)
    if any(_is_relabelled_by_others(node, queue) for node, _ in queue.waiting):
        return Start()
    if len(queue.out) >= queue.limit:
        return Start(stopped="full", blocking=tuple(sorted(queue.out)))
    # The others wait for the nodes that change: canaries, or nodes of another zone.
    return Start(stopped="failed" if failed and queue.ready else "")


def _is_relabelled_by_others(node: Node, queue: Queue) -> bool:
    """True if somebody has changed the label of a waiting node. It begins without help when
    mig-manager is done with that.
    """
    return node.name in queue.out and node.ready and node.mig_state in BUSY_STATES


def _stop_reason(queue: Queue) -> str:
    """Returns why no further node may begin, or an empty text."""
    pool, failed, total = queue.pool, queue.failed, len(queue.members)
    stands = any(change.phase in ("Draining", "Paused") for change in queue.changes.values())
    if pool.suspended and (queue.waiting or stands):
        return pool.suspended
    if not queue.waiting:
        return "failed" if failed and len(failed) == len(queue.changes) else ""
    if len(failed) >= pool.policy.failures(total):
        return "failed"
    in_a_row = pool.policy.max_failures_in_a_row
    if in_a_row is None or len(failed) < in_a_row:
        return ""
    last_success = queue.last_success()
    since = sum(change.since >= last_success for change in failed)
    return "failed" if since >= in_a_row else ""


def _choose(queue: Queue) -> tuple[Node, ...]:
    """Returns the nodes that may begin, within the limits of the policy."""
    policy, changes = queue.pool.policy, queue.changes
    missing_canaries = policy.canaries(len(queue.members)) - queue.done()
    slots = queue.limit - len(changes)
    if missing_canaries > 0:
        slots = min(slots, missing_canaries - len(changes))
    out = set(queue.out)
    zones = {policy.zone_group(node.zone) for node, _ in queue.members if node.name in changes}
    chosen: list[Node] = []
    for node in _ordered(queue, in_service_first=missing_canaries > 0):
        if len(chosen) >= slots:
            break
        if node.name not in out and len(out) >= queue.limit:
            continue
        zone = policy.zone_group(node.zone)
        if zones - {zone}:
            continue
        chosen.append(node)
        out.add(node.name)
        zones.add(zone)
    return tuple(chosen)


def _ordered(queue: Queue, *, in_service_first: bool) -> list[Node]:
    """Returns the nodes in the order of their start.

    Canaries are nodes in service if there are any, because a broken one would show nothing.
    Afterwards the nodes that are out come first, because they cost nothing.
    """
    policy = queue.pool.policy
    return sorted(
        queue.ready,
        key=lambda node: (
            policy.zone_group(node.zone),
            (node.name in queue.out) if in_service_first else (node.name not in queue.out),
            node.name,
        ),
    )
