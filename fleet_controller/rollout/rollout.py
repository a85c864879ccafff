"""The nodes of a pool that change their layout or driver now, and the next step of each. Pure.

A pool's nodes change a few at a time, the canaries before the others (`rolloutPolicy`). The rollout
never takes more of them out than the policy allows. A node counts as out if it is held,
cordoned (by anybody), not Ready, in the middle of a change, or unverified despite its wanted layout
and driver. A node that is out anyway may change at no cost, but at most that many change at a time.

No further node begins after the failures that the policy allows, in all or one after another since
a node's change last ended well. `slicewright.io/rollout: paused` on the pool stops cordons,
evictions and labels, and leaves the nodes that are being drained cordoned. `aborted` puts those
back into service, too. A node whose label is set goes on in either case: there is no way back from
there but a change to the old layout, which is a rollout of its own. `undo:LAYOUT` is such a
rollout, without another stack file (`known_layouts`): the pool's layout is then the earlier one,
and everything above applies to the way back.

Nodes that have never been verified get their layout without this: no pod can be on them. A new
driver waits for its turn on them, too: only nodes older than the operator's updated DaemonSet need
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slicewright.apis.names import BUSY_STATES
from slicewright.fleet_controller.membership.membership import (
    belongs_to,
    memberships,
    unreadable_names,
)
from slicewright.fleet_controller.nodes.watchdog import relabelled
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import UNDER_WAY, Change, change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.change_actions import ChangeAction
from slicewright.fleet_controller.rollout.drain import Refusal
from slicewright.fleet_controller.rollout.node_change import (
    advance,
    assess_waiting,
    finish_change,
    start_change,
)
from slicewright.fleet_controller.rollout.pool_target import (
    has_layout,
    lacks_driver,
    may_lack_driver,
)
from slicewright.fleet_controller.rollout.rollout_queue import Assessed, Queue, Start, start_next
from slicewright.fleet_controller.rollout.turn import Observation, Turn

HoldReason = Callable[[Node, Assessment], str | None]
"""Returns why a node with this assessment gets the startup taint in this very pass, or None."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """The result of one pass for a pool, and the progress of its layout or driver change."""

    turns: Mapping[str, Turn] = field(default_factory=dict)
    """The nodes with anything to do or to report, by name."""
    wanted_layout: str = ""
    """The layout, or empty if mig-manager does not partition the nodes."""
    done: int = 0
    """Number of verified nodes with the wanted layout and driver."""
    changing: tuple[str, ...] = ()
    """Nodes whose change has begun, failed ones included."""
    applying: bool = False
    """True if the change of any of them can no longer be reverted."""
    failed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """Nodes whose turn has not come."""
    stopped: str = ""
    """Why it does not go on, though it has not ended: `paused`, `aborted`, `failed` or `full`."""
    blocking: tuple[str, ...] = ()
    """The nodes that are out, if the rollout is full."""

    @property
    def active(self) -> bool:
        return bool(self.changing or self.waiting)


def decide_rollout(
    pool: Pool,
    members: Sequence[Assessed],
    pods: Mapping[str, tuple[NodePod, ...]],
    refusals: Mapping[str, Refusal],
    now: float,
    *,
    must_hold: HoldReason = lambda node, assessment: None,
) -> Rollout:
    """Decides the steps of a pool's nodes for one pass.

    members: the pool's nodes with their own assessments.
    pods: the pods of the nodes in `needs_pods`.
    refusals: refusals of evictions, by the pod's uid.
    """
    changes = {node.name: c for node, _ in members if (c := change_of(node)) is not None}
    waiting = [
        (node, base)
        for node, base in members
        if node.name not in changes and _waits(node, pool, base, pods.get(node.name))
    ]
    turns = {
        node.name: advance(
            Observation(
                node=node,
                pool=pool,
                change=changes[node.name],
                base=base,
                pods=pods.get(node.name),
                refusals=refusals,
                now=now,
            )
        )
        for node, base in members
        if node.name in changes
    } | {node.name: _wait(node, pool, base) for node, base in waiting}
    queue = Queue(
        pool=pool,
        members=members,
        changes=changes,
        waiting=waiting,
        out=_out_of_service(pool, members, changes, turns, must_hold),
    )
    start = start_next(queue)
    for node in start.nodes:
        first = start_change(node, pool.mig_config or "", now, driver=pool.driver or "")
        turns[node.name] = replace(turns[node.name], actions=(first,))
    return _summarize(queue, turns, start)


def _wait(node: Node, pool: Pool, base: Assessment) -> Turn:
    return Turn(assessment=assess_waiting(node, pool, base), hold=relabelled(node, pool))


def _out_of_service(
    pool: Pool,
    members: Sequence[Assessed],
    changes: Mapping[str, Change],
    turns: Mapping[str, Turn],
    must_hold: HoldReason,
) -> frozenset[str]:
    """Returns the nodes that serve no new pods.

    Includes nodes that are about to be held: a fault that has just been found takes a node out,
    too.
    """
    out = set()
    for node, base in members:
        turn = turns.get(node.name)
        assessment = (turn.assessment if turn else None) or base
        if (
            _is_out(node, base, pool, changes)
            or (turn and turn.hold)
            or must_hold(node, assessment)
        ):
            out.add(node.name)
    return frozenset(out)


def _summarize(queue: Queue, turns: Mapping[str, Turn], start: Start) -> Rollout:
    started, changes = {node.name for node in start.nodes}, queue.changes
    return Rollout(
        turns=turns,
        wanted_layout=queue.pool.mig_config or "",
        done=queue.done(),
        changing=tuple(sorted({*changes, *started})),
        applying=any(change.phase in UNDER_WAY for change in changes.values()),
        failed=tuple(sorted(name for name, c in changes.items() if c.phase == "Failed")),
        waiting=tuple(sorted(n.name for n, _ in queue.waiting if n.name not in started)),
        stopped=start.stopped,
        blocking=start.blocking,
    )


def must_change(node: Node, pool: Pool) -> bool:
    """True if the node's label has to be set.

    It is not set while mig-manager is at work, because that reads the state label that the change
    removes. Setting the same value again would start nothing.
    """
    return (
        pool.mig_config is not None
        and node.mig_config != pool.mig_config
        and node.mig_state not in BUSY_STATES
    )


def fresh(node: Node) -> bool:
    """True if the node has never been in service: it is held, and was never verified."""
    return node.held and not node.verified_boot and change_of(node) is None


def needs_pods(node: Node, pool: Pool) -> bool:
    """True if the next step depends on the node's pods."""
    change = change_of(node)
    if change is None:
        return (fresh(node) and must_change(node, pool)) or may_lack_driver(node, pool)
    if pool.driver is not None:
        return change.phase != "Paused"
    return change.phase in ("Draining", "Failed") and not has_layout(node, pool)


def left_over(pools: Sequence[Pool], nodes: Sequence[Node]) -> Mapping[str, ChangeAction]:
    """Returns the actions that put nodes back into service that left their pool in mid-change."""
    noted = [
        (node, change)
        for node in nodes
        if not node.leaving and (change := change_of(node)) is not None
    ]
    if not noted:
        return {}
    members = {node.name for _, present in memberships(pools, nodes) for node in present}
    unreadable = unreadable_names(pools)
    return {
        node.name: finish_change(node, change)
        for node, change in noted
        if node.name not in members and not belongs_to(node, unreadable)
    }


def _waits(node: Node, pool: Pool, base: Assessment, pods: tuple[NodePod, ...] | None) -> bool:
    """True if the node has to change in its turn. A fresh node needs no turn for its layout, unless
    pods have come to it nevertheless.
    """
    if lacks_driver(pool, base, pods):
        return True
    if has_layout(node, pool):
        return False
    return not fresh(node) or any(pod.gpus for pod in pods or ())


def _is_out(node: Node, base: Assessment, pool: Pool, changes: Mapping[str, Change]) -> bool:
    return (
        node.name in changes
        or node.held
        or node.unschedulable
        or not node.ready
        or (_has_target(node, base, pool) and base.status != "True")
    )


def _has_target(node: Node, base: Assessment, pool: Pool) -> bool:
    """Checks the known facts only: a node that does not answer may have the wanted state."""
    return has_layout(node, pool) and not lacks_driver(pool, base, None)
