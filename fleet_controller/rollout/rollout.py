"""The nodes of a pool that change their layout or driver now, and the next step of each. Pure.

A pool's nodes change a few at a time, and one as a proof before the others (`rolloutPolicy`). The
rollout never takes more of them out than the policy's limit. A node counts as out if it is held,
cordoned (by anybody), not Ready, in the middle of a change, or unverified despite its wanted layout
and driver. A node that is out anyway may change at no cost, but at most that many change at a time.

No further node begins after `maxFailures` failed nodes, or after `maxFailuresInARow` failures since
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
from dataclasses import dataclass, field

from apis.names import BUSY_STATES
from fleet_controller.membership.membership import belongs_to, memberships, unreadable_names
from fleet_controller.nodes.watchdog import relabelled
from fleet_controller.objects.assessment import Assessment
from fleet_controller.objects.layout_change import UNDER_WAY, Change, change_of
from fleet_controller.objects.node_pods import NodePod
from fleet_controller.objects.state import Node, Pool
from fleet_controller.rollout.change_actions import ChangeAction
from fleet_controller.rollout.drain import Refusal
from fleet_controller.rollout.node_change import Turn, finished, go_on, started, waits
from fleet_controller.rollout.wanted import has_layout, lacks_driver, may_lack_driver, shown

_SHOWN = 3

Assessed = tuple[Node, Assessment]


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """The result of one pass for a pool, and the progress of its layout or driver change."""

    turns: Mapping[str, Turn] = field(default_factory=dict)
    """The nodes with anything to do or to report, by name."""
    wanted: str = ""
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
    must_hold: Callable[[Node, Assessment], str | None] = lambda node, said: None,
) -> Rollout:
    """Decides the steps of a pool's nodes for one pass.

    members: the pool's nodes with their own assessments.
    pods: the pods of the nodes in `needs_pods`.
    refusals: refusals of evictions, by the pod's uid.
    must_hold: returns why a node with this assessment gets the startup taint in this very pass, or
    None.
    """
    changes = {node.name: c for node, _ in members if (c := change_of(node)) is not None}
    turns = {
        node.name: go_on(node, pool, changes[node.name], base, pods.get(node.name), refusals, now)
        for node, base in members
        if node.name in changes
    }
    waiting = [
        (node, base)
        for node, base in members
        if node.name not in changes and _waits(node, pool, base, pods.get(node.name))
    ]
    turns |= {
        node.name: Turn(said=waits(node, pool, base), hold=relabelled(node, pool))
        for node, base in waiting
    }
    # Includes nodes that are about to be held: a fault that has just been found takes a node out,
    # too.
    out = {
        node.name
        for node, base in members
        if _out(node, base, pool, changes)
        or ((turn := turns.get(node.name)) and turn.hold)
        or must_hold(node, turn.said if turn and turn.said else base)
    }
    stopped, beginning, blocking = _beginning(pool, members, changes, waiting, out)
    for node in beginning:
        said = turns[node.name].said
        turns[node.name] = Turn(
            actions=(started(node, pool.mig_config or "", now, driver=pool.driver or ""),),
            hold=turns[node.name].hold,
            said=said,
        )
    begun = {node.name for node in beginning}
    return Rollout(
        turns=turns,
        wanted=pool.mig_config or "",
        done=_done(pool, members, changes),
        changing=tuple(sorted({*changes, *begun})),
        applying=any(change.phase in UNDER_WAY for change in changes.values()),
        failed=tuple(sorted(name for name, c in changes.items() if c.phase == "Failed")),
        waiting=tuple(sorted(node.name for node, _ in waiting if node.name not in begun)),
        stopped=stopped,
        blocking=blocking,
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
    members = {node.name for _, there in memberships(pools, nodes) for node in there}
    unreadable = unreadable_names(pools)
    return {
        node.name: finished(node, change)
        for node, change in noted
        if node.name not in members and not belongs_to(node, unreadable)
    }


def how_far(rollout: Rollout, pool: Pool, total: int) -> str:
    """Returns the progress, for people."""
    have = "node has" if total == 1 else "nodes have"
    parts = [f"{rollout.done} of {total} {have} {shown(pool)}{_undone(pool)}"]
    if working := [name for name in rollout.changing if name not in rollout.failed]:
        parts.append(f"changing: {_names(working)}")
    if rollout.failed:
        parts.append(f"failed: {_names(rollout.failed)}")
    if rollout.waiting:
        parts.append(f"waiting: {_names(rollout.waiting)}")
    match rollout.stopped:
        case "paused" | "aborted":
            parts.append(
                f"it is {rollout.stopped}; to go on: slicewright rollout resume {pool.name}"
            )
        case "failed":
            parts.append("no further node is changed until the failed ones are mended")
        case "full":
            parts.append(
                "no further node is changed while these are out of service: "
                f"{_names(rollout.blocking)}"
            )
        case _:
            pass
    return "; ".join(parts)


def _undone(pool: Pool) -> str:
    if pool.declared is None or not pool.undone:
        return ""
    return f", to which the change to {pool.declared.mig_config} is undone"


def _waits(node: Node, pool: Pool, base: Assessment, pods: tuple[NodePod, ...] | None) -> bool:
    """True if the node has to change in its turn. A fresh node needs no turn for its layout, unless
    pods have come to it nevertheless.
    """
    if lacks_driver(pool, base, pods):
        return True
    if has_layout(node, pool):
        return False
    return not fresh(node) or any(pod.gpus for pod in pods or ())


def _out(node: Node, base: Assessment, pool: Pool, changes: Mapping[str, Change]) -> bool:
    return (
        node.name in changes
        or node.held
        or node.unschedulable
        or not node.ready
        or (_has_what_is_wanted(node, base, pool) and base.status != "True")
    )


def _has_what_is_wanted(node: Node, base: Assessment, pool: Pool) -> bool:
    """Checks the known facts only: a node that does not answer may have the wanted state."""
    return has_layout(node, pool) and not lacks_driver(pool, base, None)


def _done(pool: Pool, members: Sequence[Assessed], changes: Mapping[str, Change]) -> int:
    return sum(_is_done(node, base, pool, changes) for node, base in members)


def _is_done(node: Node, base: Assessment, pool: Pool, changes: Mapping[str, Change]) -> bool:
    return has_layout(node, pool) and base.status == "True" and node.name not in changes


def _last_proof(pool: Pool, members: Sequence[Assessed], changes: Mapping[str, Change]) -> float:
    """Returns when the change of a node that is verified now last ended, or 0 if there is none.

    A node that was only silent or away since, and is verified again, has proven nothing new.
    """
    return max(
        (node.changed_at for node, base in members if _is_done(node, base, pool, changes)),
        default=0.0,
    )


def _beginning(
    pool: Pool,
    members: Sequence[Assessed],
    changes: Mapping[str, Change],
    waiting: Sequence[Assessed],
    out: set[str],
) -> tuple[str, list[Node], tuple[str, ...]]:
    """Returns why the rollout does not go on, the nodes that begin, and the nodes in the way.

    out: gets the nodes that begin.
    """
    stands = any(change.phase in ("Draining", "Paused") for change in changes.values())
    if pool.suspended and (waiting or stands):
        return pool.suspended, [], ()
    failed = [change for change in changes.values() if change.phase == "Failed"]
    if not waiting:
        return ("failed" if failed and len(failed) == len(changes) else ""), [], ()
    policy = pool.policy
    if len(failed) >= policy.failures(len(members)):
        return "failed", [], ()
    in_a_row = policy.max_failures_in_a_row
    if in_a_row is not None and len(failed) >= in_a_row:
        proven = _last_proof(pool, members, changes)
        if sum(change.since >= proven for change in failed) >= in_a_row:
            return "failed", [], ()
    limit = policy.limit(len(members))
    slots = limit - len(changes)
    unproven = policy.canaries(len(members)) - _done(pool, members, changes)
    if unproven > 0:
        slots = min(slots, unproven - len(changes))
    zones = {policy.zone_group(node.zone) for node, _ in members if node.name in changes}
    begin: list[Node] = []
    able = _ordered(pool, waiting, out, proving=unproven > 0)
    for node in able:
        if len(begin) >= slots:
            break
        if node.name not in out and len(out) >= limit:
            continue
        zone = policy.zone_group(node.zone)
        if zones - {zone}:
            continue
        begin.append(node)
        out.add(node.name)
        zones.add(zone)
    if begin or len(failed) < len(changes):
        return "", begin, ()
    if any(
        node.name in out and node.ready and node.mig_state in BUSY_STATES for node, _ in waiting
    ):
        # Somebody has changed its label. The node begins without help when mig-manager is done with
        # that.
        return "", [], ()
    if len(out) >= limit:
        return "full", [], tuple(sorted(out))
    # The others wait for them: as the proof, or in another zone.
    return ("failed" if failed and able else ""), [], ()


def _ordered(
    pool: Pool, waiting: Sequence[Assessed], out: set[str], *, proving: bool
) -> list[Node]:
    """Returns the nodes in the order of their start.

    The proof is made on a node in service if there is one, because a broken one would prove
    nothing. Afterwards the nodes that are out come first, because they cost nothing.
    """
    able = [node for node, _ in waiting if node.ready and node.mig_state not in BUSY_STATES]
    return sorted(
        able,
        key=lambda node: (
            pool.policy.zone_group(node.zone),
            (node.name in out) if proving else (node.name not in out),
            node.name,
        ),
    )


def _names(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
