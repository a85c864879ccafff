"""Level-triggered reconciliation, as a pure function: observed state -> actions.

No state is kept between passes: it is all in Kubernetes objects, so the controller may be killed at
any time. Decided here are each node's condition, the startup taint of verified nodes, the label
`nvidia.com/mig.config`, the status of the pools, and Warning Events on the pools (which `pulumi up`
prints as they come).

A node without the startup taint gets it back (`HoldNode`) as soon as it may have lost what was
verified: it is not Ready, it has booted again, mig-manager changes its partitions, its agent found
a mismatch, or its layout is about to change. It is released when its agent has reported a match of
this boot. A report that is merely late holds no node. The taint keeps new pods away and leaves
running ones alone.

Nodes that exist without their pool are labelled when a pool selects them (`membership`), and get
back what they had when they leave it (`release`).

A layout is never changed under running pods. A node whose `mig.config` must change first gets the
startup taint back, and its label is set once no pod uses its GPUs; until then its condition is
ChangeHeldByPods and names the pods. Cordoning, draining and the order of nodes belong to a rollout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fleet_controller.api import (
    DEFAULT_MIG_CONFIG,
    DEGRADED,
    MAX_FAILING_NODES,
    PROGRESSING,
    SETTLED,
    STARTUP_TAINT_KEY,
    VERIFIED,
)
from fleet_controller.assess import BUSY_STATES, Assessment, assess
from fleet_controller.membership import JoinNode, joining, memberships
from fleet_controller.release import (
    ClearNodeCondition,
    DisableMig,
    LetPoolGo,
    ReleaseNode,
    Waiting,
    departing,
    next_step,
    pools_to_let_go,
    to_disable,
)
from fleet_controller.state import Condition, Node, Pool, Report, WarningEvent, seconds, stamp

GRACE_S = 300.0
"""How long setting up a node may take: driver, partitions (an A100 node reboots), device plugin."""
DAMPING_S = 10.0
"""How long a finding must last before there is an event: a report may come from mid-change."""
REPEAT_WARNING_S = 1800.0
"""The API server deletes events after an hour (its flag --event-ttl)."""

SAID_EVERY_S = 10.0
"""How often a waiting `pulumi up` is told what it waits for."""
LONGEST_WAIT_S = 4 * 3600.0
"""For which it is told: the most that `verify_timeout_minutes` can be."""

_EXAMPLES = 2
"""Nodes of a pool that its conditions tell in full."""

_PASSES_WITH_PODS = frozenset({"ChangeHeldByPods"})
"""Reasons that end when pods leave the node."""


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
    """Puts the startup taint back on a node."""

    node: str
    version: str
    has_taints: bool
    why: str
    """For the log."""


@dataclass(frozen=True, kw_only=True)
class RecordBoot:
    """Notes on a node in which boot it was verified."""

    node: str
    boot_id: str


@dataclass(frozen=True, kw_only=True)
class LiftTaint:
    node: str
    position: int
    """Index of the taint in spec.taints."""
    boot_id: str
    """The boot that was verified: the node may have booted again since the decision."""


@dataclass(frozen=True, kw_only=True)
class SetMigConfig:
    """Sets nvidia.com/mig.config and removes mig.config.state, which is about the old layout."""

    node: str
    version: str
    value: str


@dataclass(frozen=True, kw_only=True)
class SetPoolStatus:
    pool: str
    status: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EmitEvent:
    """Creates or renews a Warning Event on a pool. Its name is derived from its content."""

    name: str
    pool: str
    pool_uid: str
    reason: str
    message: str
    now: float


@dataclass(frozen=True, kw_only=True)
class RetractEvent:
    """Deletes a warning that is no longer true: `pulumi up` also shows old events."""

    name: str


Action = (
    SetNodeCondition
    | HoldNode
    | RecordBoot
    | LiftTaint
    | SetMigConfig
    | JoinNode
    | ClearNodeCondition
    | ReleaseNode
    | SetPoolStatus
    | LetPoolGo
    | EmitEvent
    | RetractEvent
)


@dataclass(frozen=True, kw_only=True)
class Decision:
    actions: tuple[Action, ...]
    """In the order in which they must be carried out: those of one node depend on each other, and
    holding nodes comes first, because their device plugins may register whole GPUs any moment.
    """
    look_again: float | None
    """When the decision may change by time alone; seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A node of a pool."""

    node: Node
    assessment: Assessment
    settling: bool
    """Not verified, but still within its grace period."""
    changed: float
    """When its condition's status last changed."""
    warns: bool
    """Whether there is to be an event about it."""
    stuck: bool
    """Wrong for DAMPING_S, for a reason that does not pass by itself."""


def decide(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    reports: Mapping[str, Report],
    gpu_pods: Mapping[str, tuple[str, ...]],
    warnings: Mapping[str, WarningEvent],
    now: float,
    *,
    no_agents: Mapping[str, str] = MappingProxyType({}),
    no_operands: Mapping[str, str] = MappingProxyType({}),
) -> Decision:
    """The actions that bring the cluster to where it should be.

    reports: by node. gpu_pods: node -> pods that use its GPUs, for the nodes that `to_inspect`
    returns; without an entry the node's layout is not changed. warnings: the controller's own
    Events in the cluster, by name. no_agents: node -> why its agent has not reported.
    no_operands: node -> why NVIDIA's operands do not serve it.
    """
    holds: list[Action] = []
    actions: list[Action] = []
    deadlines: list[float] = []
    wanted_events: dict[str, EmitEvent] = {}
    for pool, pool_nodes in memberships(pools, nodes):
        members = []
        for node in pool_nodes:
            pods = gpu_pods.get(node.name)
            report = reports.get(node.name)
            assessment = assess(
                node,
                pool,
                report,
                now,
                gpu_pods=pods,
                no_agent=no_agents.get(node.name),
                no_operands=no_operands.get(node.name),
            )
            member = _member(node, assessment, now, deadlines)
            members.append(member)
            join = joining(node, pool)
            if join and node.joined is None:
                # Nothing is done to an existing node before it is noted there, to be taken back.
                actions.append(join)
                continue
            why = _must_hold(member, pool, report, pods)
            if why and not node.held:
                holds.append(_hold(node, why))
            if join:
                actions.append(join)
            actions += _node_actions(member, pool, pods, now)
        # Where a whole pool fails, its first nodes are enough: thousands of events help nobody.
        for member in [m for m in members if m.warns][:MAX_FAILING_NODES]:
            said = member.assessment
            event = _warning(pool, member.node, said.reason, said.message, now)
            wanted_events[event.name] = event
        status = _status(pool, members, now)
        if status != pool.status:
            # A merge patch: what is left out would stay.
            gone = {key: None for key in pool.status if key not in status}
            actions.append(SetPoolStatus(pool=pool.name, status={**status, **gone}))
        if progress := _still_waiting(pool, status, now, deadlines):
            wanted_events[progress.name] = progress
    for node, left in departing(pools, nodes):
        match next_step(node, left, gpu_pods.get(node.name)):
            case DisableMig() if node.held:
                actions.append(
                    SetMigConfig(node=node.name, version=node.version, value=DEFAULT_MIG_CONFIG)
                )
            case DisableMig():
                holds.append(_hold(node, "it leaves its pool, and MIG is disabled"))
            case Waiting(pool=pool, reason=reason, message=message):
                event = _warning(pool, node, reason, message, now)
                wanted_events[event.name] = event
            case ClearNodeCondition() | ReleaseNode() as step:
                actions.append(step)
    actions += pools_to_let_go(pools, nodes)
    for name, event in wanted_events.items():
        old = warnings.get(name)
        due = old.last_seen + REPEAT_WARNING_S if old else now
        if due <= now:
            actions.append(event)
            due = now + REPEAT_WARNING_S
        deadlines.append(due)
    actions += [RetractEvent(name=name) for name in warnings if name not in wanted_events]
    return Decision(
        actions=(*holds, *actions),
        look_again=min((at for at in deadlines if at > now), default=None),
    )


def to_inspect(pools: Sequence[Pool], nodes: Sequence[Node]) -> tuple[str, ...]:
    """Nodes whose layout must change, which depends on the pods that use their GPUs."""
    changing = (
        node.name
        for pool, members in memberships(pools, nodes)
        for node in members
        if _must_change(node, pool)
    )
    return (*changing, *to_disable(pools, nodes))


def without_report(
    pools: Sequence[Pool], nodes: Sequence[Node], reports: Mapping[str, Report]
) -> dict[str, str]:
    """Node -> its pool, where the node's agent has never reported."""
    return {
        node.name: pool.name
        for pool, members in memberships(pools, nodes)
        for node in members
        if node.name not in reports
    }


def unproven(pools: Sequence[Pool], nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The first few nodes of each pool that were not verified when last assessed, whose messages
    stand for the others.
    """
    found: list[Node] = []
    for _, members in memberships(pools, nodes):
        waiting = [m for m in members if m.condition is None or m.condition.status != "True"]
        found += sorted(waiting, key=lambda node: node.name)[:_EXAMPLES]
    return tuple(found)


def _member(node: Node, assessment: Assessment, now: float, deadlines: list[float]) -> Member:
    old = node.condition
    changed = old.changed if old and old.status == assessment.status else now
    if assessment.expires:
        deadlines.append(assessment.expires)
    settling = warns = False
    if assessment.status != "True":
        if assessment.settles:
            # The grace period starts with the node, and again when its status changes.
            until = (max(node.created, old.changed) if old else node.created) + GRACE_S
            settling = now < until
        else:
            since = old.written if old and _says(old, assessment) else now
            until = since + DAMPING_S
        deadlines.append(until)
        warns = now >= until
    stuck = (
        warns
        and assessment.status == "False"
        and not assessment.settles
        and assessment.reason not in _PASSES_WITH_PODS
    )
    return Member(
        node=node,
        assessment=assessment,
        settling=settling,
        changed=changed,
        warns=warns,
        stuck=stuck,
    )


def _says(condition: Condition, assessment: Assessment) -> bool:
    """Whether a condition in the cluster is what it should be."""
    return (condition.status, condition.reason, condition.message) == (
        assessment.status,
        assessment.reason,
        assessment.message,
    )


def _node_actions(
    member: Member, pool: Pool, gpu_pods: tuple[str, ...] | None, now: float
) -> list[Action]:
    node, assessment = member.node, member.assessment
    actions: list[Action] = []
    if node.condition is None or not _says(node.condition, assessment):
        actions.append(
            SetNodeCondition(
                node=node.name,
                status=assessment.status,
                reason=assessment.reason,
                message=assessment.message,
                changed=member.changed,
                now=now,
            )
        )
    if assessment.status == "True":
        if node.verified_boot != node.boot_id:
            actions.append(RecordBoot(node=node.name, boot_id=node.boot_id))
        positions = [i for i, key in enumerate(node.taint_keys) if key == STARTUP_TAINT_KEY]
        # From the back, so that a removal does not move the next one.
        actions += [
            LiftTaint(node=node.name, position=i, boot_id=node.boot_id) for i in reversed(positions)
        ]
    if node.held and _must_change(node, pool) and gpu_pods == ():
        assert pool.mig_config is not None
        actions.append(SetMigConfig(node=node.name, version=node.version, value=pool.mig_config))
    return actions


def _must_hold(
    member: Member, pool: Pool, report: Report | None, gpu_pods: tuple[str, ...] | None
) -> str | None:
    """Why no new pods may come to the node; None where they may.

    With a reason, the node's assessment is never True: what is held here is not released by it.
    """
    node = member.node
    if not node.ready:
        return "not Ready"
    if member.assessment.status != "True" and node.boot_id != _last_verified_boot(node, report):
        return "booted since it was verified"
    if member.assessment.mismatch:
        return member.assessment.reason
    if pool.mig_config and node.mig_state in BUSY_STATES:
        return "mig-manager changes its partitions"
    if _must_change(node, pool) and gpu_pods == ():
        return "its layout changes"
    return None


def _last_verified_boot(node: Node, report: Report | None) -> str:
    """The boot in which the node was last verified, as far as the objects tell; else this one.

    Without the annotation (a node that an older controller released, or that never had the taint)
    the boot of its report is the best there is.
    """
    if node.verified_boot:
        return node.verified_boot
    if report is not None and report.owner_uid == node.uid:
        return report.boot_id
    return node.boot_id


def _must_change(node: Node, pool: Pool) -> bool:
    # Not while mig-manager is at work: it reads the state label that the change removes. And not
    # the same value again, which would start nothing.
    return (
        pool.mig_config is not None
        and node.mig_config != pool.mig_config
        and node.mig_state not in BUSY_STATES
    )


def _hold(node: Node, why: str) -> HoldNode:
    return HoldNode(node=node.name, version=node.version, has_taints=bool(node.taint_keys), why=why)


def _warning(pool: Pool, node: Node, reason: str, about: str, now: float) -> EmitEvent:
    return _event(pool, reason, f"node {node.name}: {about}", now)


def _event(pool: Pool, reason: str, message: str, now: float) -> EmitEvent:
    digest = hashlib.sha256(f"{pool.uid} {reason} {message}".encode()).hexdigest()
    return EmitEvent(
        name=f"{pool.name}.{digest[:16]}",
        pool=pool.name,
        pool_uid=pool.uid,
        reason=reason,
        message=message,
        now=now,
    )


def _still_waiting(
    pool: Pool, status: Mapping[str, Any], now: float, deadlines: list[float]
) -> EmitEvent | None:
    """What a waiting `pulumi up` is told; another text every `SAID_EVERY_S`.

    Of a condition that is False the provider shows neither reason nor message, and every text only
    once (pulumi/pulumi-kubernetes #4428); Warning Events it shows as they come.
    """
    if not status.get("waitingSince") or status["waitingSince"] != pool.status.get("waitingSince"):
        return None  # it has settled, or the wait is not written down yet: the next pass sees it
    since = seconds(status["waitingSince"])
    if now - since >= LONGEST_WAIT_S:
        return None
    said = int((now - since) / SAID_EVERY_S)
    deadlines.append(since + (said + 1) * SAID_EVERY_S)
    if said < 1:
        return None
    (settled,) = (c for c in status["conditions"] if c["type"] == SETTLED)
    about = f"after {int(said * SAID_EVERY_S)} s: {settled['message']}"
    return _event(pool, "NotYetVerified", about, now)


def _status(pool: Pool, members: Sequence[Member], now: float) -> Mapping[str, Any]:
    bad = sorted(
        (m for m in members if m.assessment.status != "True"),
        key=lambda m: (m.assessment.status != "False", m.settling, m.node.name),
    )
    false = sum(m.assessment.status == "False" for m in members)
    settled = _settled(pool, members, bad)
    since = None if settled[0] else _waiting_since(pool, now)
    return {
        "observedGeneration": pool.generation,
        **({"waitingSince": since} if since else {}),
        "nodes": {
            "total": len(members),
            "verified": len(members) - len(bad),
            "failing": false,
            "unknown": len(bad) - false,
        },
        "failingNodes": [
            {"name": m.node.name, "reason": m.assessment.reason, "message": m.assessment.message}
            for m in bad[:MAX_FAILING_NODES]
        ],
        "conditions": [
            _condition(pool, VERIFIED, *_verified(pool, members, bad), now),
            _condition(pool, PROGRESSING, *_progressing(pool, members), now),
            _condition(pool, DEGRADED, *_degraded(bad), now),
            _condition(pool, SETTLED, *settled, now),
        ],
    }


def _waiting_since(pool: Pool, now: float) -> str | None:
    """When a `pulumi up` may have begun to wait for this generation; None once it has settled: what
    happens later, a node that joins for example, keeps no `up` waiting.
    """
    if pool.status.get("observedGeneration") != pool.generation:
        return stamp(now)
    since: str | None = pool.status.get("waitingSince")
    return since


def _verified(
    pool: Pool, members: Sequence[Member], bad: Sequence[Member]
) -> tuple[bool, str, str]:
    if bad:
        reason = "NodesFailing" if bad[0].assessment.status == "False" else "NodesNotProven"
        return False, reason, f"{_nodes(bad)} of {len(members)} not verified: {_examples(bad)}"
    if len(members) < pool.fewest:
        return False, "TooFewNodes", f"{len(members)} of at least {_number(pool.fewest)} exist"
    if not members:
        return True, "NoNodes", "the pool has no nodes and needs none"
    return True, "AllNodesProven", f"{_nodes(members)} verified"


def _progressing(pool: Pool, members: Sequence[Member]) -> tuple[bool, str, str]:
    settling = [m for m in members if m.settling]
    if settling:
        return True, "NodesBeingSetUp", f"{_nodes(settling)} being set up: {_examples(settling)}"
    if len(members) < pool.fewest:
        return True, "WaitingForNodes", f"{len(members)} of at least {_number(pool.fewest)} exist"
    return False, "Settled", "no node is being set up"


def _degraded(bad: Sequence[Member]) -> tuple[bool, str, str]:
    lasting = [m for m in bad if not m.settling]
    if lasting:
        return True, "NodesFailing", f"{_nodes(lasting)} not as wanted: {_examples(lasting)}"
    return False, "AsWanted", "no node has failed"


def _settled(pool: Pool, members: Sequence[Member], bad: Sequence[Member]) -> tuple[bool, str, str]:
    """Whether waiting changes nothing: every node is verified, or one stays wrong by itself."""
    verified, reason, message = _verified(pool, members, bad)
    stuck = [m for m in bad if m.stuck]
    if stuck:
        return True, "NodesFailing", f"{_nodes(stuck)} wrong: {_examples(stuck)}"
    return verified, reason, message


def _examples(members: Sequence[Member]) -> str:
    """The first with reason and message; others are in failingNodes."""
    text = "; ".join(
        f"{m.node.name} {m.assessment.reason}: {m.assessment.message}" for m in members[:_EXAMPLES]
    )
    more = len(members) - _EXAMPLES
    return text + (f"; and {more} more" if more > 0 else "")


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


def _nodes(members: Sequence[Member]) -> str:
    return _number(len(members))


def _number(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
