"""Which nodes of a pool change their layout or driver now, and what becomes of each. Pure.

A pool's nodes change a few at a time, and one as a proof before the others (`rolloutPolicy`). Never
are more than `maxUnavailable` of them out because of us: every node counts that is held, cordoned
(by whomever), not Ready, in the middle of a change, or has what is wanted and is not verified. A
node that is out anyway may change at no cost, as one of at most that many at a time.

With `maxFailures` failed nodes no further one begins, nor with `maxFailuresInARow` that have failed
since the change of one has last ended well. `slicewright.io/rollout: paused` on the pool
stops cordons, evictions and labels, and leaves the nodes that are being drained cordoned; `aborted`
puts those back into service, too. A node whose label is set goes on in either case: there is no way
back from there but a change to the old layout, which is a rollout of its own. `undo:LAYOUT` is such
a rollout, without another stack file (`known_layouts`): the pool's layout is then the earlier one,
and all that is said here holds of the way back.

Nodes that have never been verified get their layout without this: no pod can be on them. Another
driver waits for its turn on them, too: it is wanted only of nodes that came before the operator's
DaemonSet had it.
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
    """What one pass does with a pool, and how far the change of its layout or driver is."""

    turns: Mapping[str, Turn] = field(default_factory=dict)
    """By node, where there is anything to do or to say."""
    wanted: str = ""
    """The layout; empty where mig-manager does not partition the nodes."""
    done: int = 0
    """Nodes that have what is wanted, and are verified."""
    changing: tuple[str, ...] = ()
    """Nodes whose change has begun, failed ones included."""
    applying: bool = False
    """Whether one of them is past the point from which there is a way back."""
    failed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """Nodes whose turn has not come."""
    stopped: str = ""
    """Why it does not go on, though it is not at its end: `paused`, `aborted`, `failed`, `full`."""
    blocking: tuple[str, ...] = ()
    """Where it is full: the nodes that are out."""

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
    """members: the pool's nodes with what each is by itself. pods: of the nodes of `needs_pods`.
    refusals: of evictions, by the pod's uid. must_hold: why a node that is assessed so gets the
    startup taint in this very pass, if it does.
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
    # Not only those that are held already: what a fault has just taken is out, too.
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
    """Whether the node's label has to be set.

    Not while mig-manager is at work: it reads the state label that the change removes. And not the
    same value again, which would start nothing.
    """
    return (
        pool.mig_config is not None
        and node.mig_config != pool.mig_config
        and node.mig_state not in BUSY_STATES
    )


def fresh(node: Node) -> bool:
    """Whether the node has never been in service: it is held, and was never verified."""
    return node.held and not node.verified_boot and change_of(node) is None


def needs_pods(node: Node, pool: Pool) -> bool:
    """Whether the next step depends on the node's pods."""
    change = change_of(node)
    if change is None:
        return (fresh(node) and must_change(node, pool)) or may_lack_driver(node, pool)
    if pool.driver is not None:
        return change.phase != "Paused"
    return change.phase in ("Draining", "Failed") and not has_layout(node, pool)


def left_over(pools: Sequence[Pool], nodes: Sequence[Node]) -> Mapping[str, ChangeAction]:
    """What puts nodes back into service that have left their pool in the middle of a change."""
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
    """How far it is, for people."""
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
    """Whether the node has to change in its turn. A fresh one has no turn to wait for with its
    layout, unless pods have come to it all the same.
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
    """As far as is known: where it does not answer, it may be that."""
    return has_layout(node, pool) and not lacks_driver(pool, base, None)


def _done(pool: Pool, members: Sequence[Assessed], changes: Mapping[str, Change]) -> int:
    return sum(_is_done(node, base, pool, changes) for node, base in members)


def _is_done(node: Node, base: Assessment, pool: Pool, changes: Mapping[str, Change]) -> bool:
    return has_layout(node, pool) and base.status == "True" and node.name not in changes


def _last_proof(pool: Pool, members: Sequence[Assessed], changes: Mapping[str, Change]) -> float:
    """When the change of a node that is verified with what is wanted has last ended; 0 where none
    has. A node that was only silent or away since, and is verified again, has proven nothing new.
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
    """Why it does not go on, or the nodes that begin; and which nodes are in the way. out: gets
    those that begin.
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
    unproven = min(policy.canary, len(members)) - _done(pool, members, changes)
    if unproven > 0:
        slots = min(slots, unproven - len(changes))
    zones = {node.zone for node, _ in members if node.name in changes}
    begin: list[Node] = []
    able = _ordered(pool, waiting, out, proving=unproven > 0)
    for node in able:
        if len(begin) >= slots:
            break
        if node.name not in out and len(out) >= limit:
            continue
        if policy.one_zone_at_a_time and zones - {node.zone}:
            continue
        begin.append(node)
        out.add(node.name)
        zones.add(node.zone)
    if begin or len(failed) < len(changes):
        return "", begin, ()
    if any(
        node.name in out and node.ready and node.mig_state in BUSY_STATES for node, _ in waiting
    ):
        # Somebody has changed its label. It begins by itself when mig-manager is done with that.
        return "", [], ()
    if len(out) >= limit:
        return "full", [], tuple(sorted(out))
    # They are what the others wait for: as the proof, or in another zone.
    return ("failed" if failed and able else ""), [], ()


def _ordered(
    pool: Pool, waiting: Sequence[Assessed], out: set[str], *, proving: bool
) -> list[Node]:
    """In which order nodes begin. The proof is made on a node in service where there is one: a
    broken one would prove nothing. Afterwards those that are out come first: they cost nothing.
    """
    able = [node for node, _ in waiting if node.ready and node.mig_state not in BUSY_STATES]
    return sorted(
        able,
        key=lambda node: (
            node.zone if pool.policy.one_zone_at_a_time else "",
            (node.name in out) if proving else (node.name not in out),
            node.name,
        ),
    )


def _names(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
