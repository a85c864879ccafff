"""The decision, pure and level-triggered: what there is -> what must be done so that nothing more
need be done.

Nothing is remembered between passes; everything stands in Kubernetes objects, so the controller may
die at any moment.

What is decided here: every node's condition, the startup taint of proven nodes, the label
`nvidia.com/mig.config`, the pools' status, and Warning Events on the pools (which `pulumi up` shows
live).

A layout is never changed under running pods. A node whose `mig.config` must change is first held
(the startup taint is put on it, which also a new node carries), and its label is set only once no
pod uses its GPUs; until then the node's condition is ChangeHeldByPods and names them. Cordon, drain
and the order of a fleet are the rollout's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fleet_controller.api import (
    DEGRADED,
    MAX_FAILING_NODES,
    PROGRESSING,
    STARTUP_TAINT_KEY,
    VERIFIED,
)
from fleet_controller.judge import BUSY_STATES, Judgement, judge
from fleet_controller.state import Node, Pool, Report, Warned, stamp

GRACE_S = 300.0
"""How long a node may take for what settles by itself: driver, partitioning, device plugin. An A100
node reboots in between.
"""
DAMPING_S = 10.0
"""How long something definite must stand before it is called out: a look into the middle of a
change is no finding.
"""
REPEAT_WARNING_S = 1800.0
"""The API server forgets events after an hour."""


@dataclass(frozen=True, kw_only=True)
class SetNodeCondition:
    node: str
    status: str
    reason: str
    message: str
    changed: float
    """lastTransitionTime."""
    now: float


@dataclass(frozen=True, kw_only=True)
class HoldNode:
    """Puts the startup taint on a node that lost it, before its layout changes."""

    node: str
    version: str
    has_taints: bool


@dataclass(frozen=True, kw_only=True)
class LiftTaint:
    node: str
    position: int
    """Where the taint stands in spec.taints."""


@dataclass(frozen=True, kw_only=True)
class SetMigConfig:
    """Sets nvidia.com/mig.config and takes the old mig.config.state away, so that it cannot be
    taken for the new one.
    """

    node: str
    version: str
    value: str


@dataclass(frozen=True, kw_only=True)
class SetPoolStatus:
    pool: str
    status: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EmitEvent:
    """A Warning Event on a pool. The name follows from the content, so the same event is never
    there twice.
    """

    name: str
    pool: str
    pool_uid: str
    reason: str
    message: str
    now: float


@dataclass(frozen=True, kw_only=True)
class RetractEvent:
    """Takes back a warning that is not true any more: `pulumi up` also shows old events."""

    name: str


Action = (
    SetNodeCondition
    | HoldNode
    | LiftTaint
    | SetMigConfig
    | SetPoolStatus
    | EmitEvent
    | RetractEvent
)
Standing = Literal["verified", "settling", "failing", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    actions: tuple[Action, ...]
    """In the order in which they must be done; those of one node depend on each other."""
    look_again: float | None
    """When time alone changes the decision; seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A node as a member of its pool."""

    node: Node
    judgement: Judgement
    standing: Standing
    changed: float
    warns: bool


def decide(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    reports: Mapping[str, Report],
    holders: Mapping[str, tuple[str, ...]],
    warned: Mapping[str, Warned],
    now: float,
) -> Decision:
    """What must be done.

    reports: by node. holders: node -> pods that use its GPUs, for the nodes that `to_inspect`
    names; a missing entry means that nobody knows, and nothing is risked. warned: our Events in the
    cluster, by name.
    """
    actions: list[Action] = []
    wakes: list[float] = []
    wanted_events: dict[str, EmitEvent] = {}
    for pool, members_nodes in _memberships(pools, nodes):
        members = []
        for node in members_nodes:
            held_by = holders.get(node.name)
            judgement = judge(node, pool, reports.get(node.name), now, holders=held_by)
            member = _member(node, judgement, now, wakes)
            members.append(member)
            actions += _node_actions(member, pool, held_by, now)
        # A pool that fails as a whole says so by its first nodes; thousands of events would bury
        # them.
        for member in [m for m in members if m.warns][:MAX_FAILING_NODES]:
            event = _warning(pool, member.node, member.judgement, now)
            wanted_events[event.name] = event
        status = _status(pool, members, now)
        if status != pool.status:
            actions.append(SetPoolStatus(pool=pool.name, status=status))
    for name, event in wanted_events.items():
        old = warned.get(name)
        due = old.written + REPEAT_WARNING_S if old else now
        if due <= now:
            actions.append(event)
        wakes.append(due if due > now else now + REPEAT_WARNING_S)
    actions += [RetractEvent(name=name) for name in warned if name not in wanted_events]
    return Decision(
        actions=tuple(actions), look_again=min((w for w in wakes if w > now), default=None)
    )


def to_inspect(pools: Sequence[Pool], nodes: Sequence[Node]) -> tuple[str, ...]:
    """Nodes whose label must change and of which it must therefore be known which pods use their
    GPUs.
    """
    return tuple(
        node.name
        for pool, members in _memberships(pools, nodes)
        for node in members
        if _must_change(node, pool)
    )


def _memberships(pools: Sequence[Pool], nodes: Sequence[Node]) -> list[tuple[Pool, list[Node]]]:
    """Every pool with its nodes. A node that two selectors find belongs to the first pool by name:
    one condition, one owner.
    """
    taken: set[str] = set()
    memberships = []
    present = [node for node in sorted(nodes, key=lambda n: n.name) if not node.leaving]
    for pool in sorted(pools, key=lambda p: p.name):
        members = [node for node in present if node.name not in taken and pool.selects(node)]
        taken.update(node.name for node in members)
        memberships.append((pool, members))
    return memberships


def _member(node: Node, judgement: Judgement, now: float, wakes: list[float]) -> Member:
    old = node.condition
    said_before = old is not None and (old.status, old.reason, old.message) == (
        judgement.status,
        judgement.reason,
        judgement.message,
    )
    changed = old.changed if old and old.status == judgement.status else now
    if judgement.expires:
        wakes.append(judgement.expires)
    if judgement.status == "True":
        return Member(
            node=node, judgement=judgement, standing="verified", changed=changed, warns=False
        )
    if judgement.settles:
        # The clock of a settling node starts when it is made, and anew when it stops being
        # verified.
        until = max(node.created, old.changed if old else 0.0) + GRACE_S
        standing: Standing = (
            "settling" if now < until else "failing" if judgement.status == "False" else "unknown"
        )
    else:
        until = (old.written if old and said_before else now) + DAMPING_S
        standing = "failing" if judgement.status == "False" else "unknown"
    wakes.append(until)
    return Member(
        node=node, judgement=judgement, standing=standing, changed=changed, warns=now >= until
    )


def _node_actions(
    member: Member, pool: Pool, holders: tuple[str, ...] | None, now: float
) -> list[Action]:
    node, judgement = member.node, member.judgement
    actions: list[Action] = []
    old = node.condition
    if old is None or (old.status, old.reason, old.message) != (
        judgement.status,
        judgement.reason,
        judgement.message,
    ):
        actions.append(
            SetNodeCondition(
                node=node.name,
                status=judgement.status,
                reason=judgement.reason,
                message=judgement.message,
                changed=member.changed,
                now=now,
            )
        )
    if judgement.status == "True" and node.held:
        from_fleet = [
            position for position, key in enumerate(node.taint_keys) if key == STARTUP_TAINT_KEY
        ]
        # From the back, so that an earlier removal does not move a later one.
        actions += [
            LiftTaint(node=node.name, position=position) for position in reversed(from_fleet)
        ]
    if _must_change(node, pool) and holders == ():
        assert pool.mig_config is not None
        if node.held:
            actions.append(
                SetMigConfig(node=node.name, version=node.version, value=pool.mig_config)
            )
        else:
            actions.append(
                HoldNode(node=node.name, version=node.version, has_taints=bool(node.taint_keys))
            )
    return actions


def _must_change(node: Node, pool: Pool) -> bool:
    # Never while mig-manager works: it reads the state label that the change takes away, and a
    # value set twice starts nothing.
    return (
        pool.mig_config is not None
        and node.mig_config != pool.mig_config
        and node.mig_state not in BUSY_STATES
    )


def _warning(pool: Pool, node: Node, judgement: Judgement, now: float) -> EmitEvent:
    message = f"node {node.name}: {judgement.message}"
    digest = hashlib.sha256(f"{pool.uid} {judgement.reason} {message}".encode()).hexdigest()
    return EmitEvent(
        name=f"{pool.name}.{digest[:16]}",
        pool=pool.name,
        pool_uid=pool.uid,
        reason=judgement.reason,
        message=message,
        now=now,
    )


def _status(pool: Pool, members: Sequence[Member], now: float) -> Mapping[str, Any]:
    bad = [m for m in members if m.standing != "verified"]
    order = {"failing": 0, "unknown": 1, "settling": 2}
    first = sorted(
        bad, key=lambda m: (m.judgement.status != "False", order[m.standing], m.node.name)
    )
    false = sum(m.judgement.status == "False" for m in members)
    return {
        "observedGeneration": pool.generation,
        "nodes": {
            "total": len(members),
            "verified": len(members) - len(bad),
            "failing": false,
            "unknown": len(bad) - false,
        },
        "failingNodes": [
            {"name": m.node.name, "reason": m.judgement.reason, "message": m.judgement.message}
            for m in first[:MAX_FAILING_NODES]
        ],
        "conditions": [
            _condition(pool, VERIFIED, *_verified(pool, members, first), now),
            _condition(pool, PROGRESSING, *_progressing(pool, members), now),
            _condition(pool, DEGRADED, *_degraded(first), now),
        ],
    }


def _verified(
    pool: Pool, members: Sequence[Member], bad: Sequence[Member]
) -> tuple[bool, str, str]:
    if bad:
        reason = "NodesFailing" if bad[0].judgement.status == "False" else "NodesNotProven"
        return False, reason, f"{_some(bad)} of {len(members)} not proven: {_told(bad)}"
    if len(members) < pool.fewest:
        return False, "TooFewNodes", f"{len(members)} of at least {_number(pool.fewest)} there"
    if not members:
        return True, "NoNodes", "the pool has no nodes, and may have none"
    whose = "its" if len(members) == 1 else "their"
    return True, "AllNodesProven", f"{_number(len(members))} proven on {whose} own silicon"


def _progressing(pool: Pool, members: Sequence[Member]) -> tuple[bool, str, str]:
    settling = [m for m in members if m.standing == "settling"]
    if settling:
        return True, "NodesBeingSetUp", f"{_some(settling)} being set up: {_told(settling)}"
    if len(members) < pool.fewest:
        return True, "WaitingForNodes", f"{len(members)} of at least {_number(pool.fewest)} there"
    return False, "Settled", "nothing is under way"


def _degraded(bad: Sequence[Member]) -> tuple[bool, str, str]:
    lasting = [m for m in bad if m.standing != "settling"]
    if lasting:
        return True, "NodesFailing", f"{_some(lasting)} not as wanted: {_told(lasting)}"
    return False, "AsWanted", "no node has failed"


def _told(members: Sequence[Member]) -> str:
    """The first two in their own words; the others are in failingNodes."""
    told = "; ".join(
        f"{m.node.name} {m.judgement.reason}: {m.judgement.message}" for m in members[:2]
    )
    return told + (f"; and {len(members) - 2} more" if len(members) > 2 else "")


def _condition(
    pool: Pool, kind: str, holds: bool, reason: str, message: str, now: float
) -> dict[str, Any]:
    old = pool.condition(kind)
    status = "True" if holds else "False"
    return {
        "type": kind,
        "status": status,
        "observedGeneration": pool.generation,
        "lastTransitionTime": stamp(old.changed if old and old.status == status else now),
        "reason": reason,
        "message": message,
    }


def _some(members: Sequence[Member]) -> str:
    return _number(len(members))


def _number(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
