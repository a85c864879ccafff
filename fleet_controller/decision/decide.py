"""Level-triggered reconciliation, as a pure function: observed state -> actions.

No state is kept between passes: it is all in Kubernetes objects, so the controller may be killed at
any time. It decides each node's condition, the startup taint of verified nodes, the label
`nvidia.com/mig.config`, the status of the pools, and Warning Events on the pools (which `pulumi up`
prints as they come).

A node without the startup taint gets it back (`AddStartupTaint`) as soon as it may have lost its
verified state: it is not Ready, it has booted again, mig-manager changes its partitions, its agent
found a mismatch, or its layout is about to change. So does a node whose driver has not answered the
agent for minutes, up to the number of the pool's nodes that may be unavailable. A node is released
when its agent has reported a match of this boot. A report that is merely late holds no node. The
taint keeps new pods away and leaves running ones alone.

Nodes that exist without their pool are labelled when a pool selects them (`membership`), and get
their earlier labels back when they leave it (`release`).

A layout is never changed under running pods. A node that has never been verified gets its label
while it is held. `rollout` decides which of the others change, and when.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from apis.names import (
    BUSY_STATES,
    DEFAULT_MIG_CONFIG,
    MAX_FAILING_NODES,
    SETTLED,
    STARTUP_TAINT_KEY,
)
from fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    ClearReportsAfter,
    EmitEvent,
    EndUndo,
    RecordBoot,
    RemoveStartupTaint,
    RetractEvent,
    SetDesiredState,
    SetMigConfig,
    SetNodeCondition,
    SetPoolStatus,
)
from fleet_controller.membership.membership import Present, brought_keys, joining, memberships
from fleet_controller.membership.release import (
    ClearNodeCondition,
    DisableMig,
    ReleaseNode,
    Waiting,
    departing,
    finalizers_to_remove,
    next_step,
    to_disable,
)
from fleet_controller.nodes.assess import REPORT_AGE_LIMIT_S, assess
from fleet_controller.nodes.watchdog import NOTHING, Watch, due, relabelled, watch
from fleet_controller.objects.assessment import Assessment
from fleet_controller.objects.bounds import seconds
from fleet_controller.objects.known_layouts import earlier
from fleet_controller.objects.node import Node
from fleet_controller.objects.node_pods import NodePod
from fleet_controller.objects.pool import Pool
from fleet_controller.objects.report import Report
from fleet_controller.objects.warning_event import WarningEvent
from fleet_controller.pools.members import Member, member_of, says
from fleet_controller.pools.quarantine import quarantine
from fleet_controller.pools.status import EXAMPLES, TOO_FEW_LIMIT_S, pool_status
from fleet_controller.rollout.change_actions import ChangeAction, CordonNode
from fleet_controller.rollout.drain import Refusal
from fleet_controller.rollout.rollout import (
    decide_rollout,
    fresh,
    left_over,
    must_change,
    needs_pods,
)

REPEAT_WARNING_S = 1800.0
"""The API server deletes events after an hour (its flag --event-ttl)."""
PROGRESS_EVENT_INTERVAL_S = 10.0
"""Interval at which a waiting `pulumi up` shows its progress. It grows if many pools wait."""
PROGRESS_EVENTS_PER_SECOND = 2.5
"""Most such messages a second, for all pools. Each is a line on the terminal, and two requests."""
LONGEST_WAIT_S = 4 * 3600.0
"""Longest time that `pulumi up` waits: the limit of `verify_timeout_minutes`."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    actions: tuple[Action, ...]
    """The order of execution matters: the actions on one node depend on each other, and holding
    nodes comes first, because their device plugins may register whole GPUs any moment.
    """
    look_again: float | None
    """Time when the decision may change without any event, in seconds since the epoch."""
    faults: tuple[Fault, ...] = ()
    """The pools that were left alone because deciding about them failed unexpectedly."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An unexpected exception, and the part of the pass that it left undone."""

    subject: str
    """The part that failed, such as `pool a100`."""
    error: Exception


def decide(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    reports: Mapping[str, Report],
    pods: Mapping[str, tuple[NodePod, ...]],
    warnings: Mapping[str, WarningEvent],
    now: float,
    *,
    refusals: Mapping[str, Refusal] = MappingProxyType({}),
    no_agents: Mapping[str, str] = MappingProxyType({}),
    no_operands: Mapping[str, str] = MappingProxyType({}),
    present: Present | None = None,
) -> Decision:
    """Returns the actions that bring the cluster to its desired state.

    reports: by node.
    pods: node -> its pods that have not ended, for the nodes that `to_inspect` returns. Without an
    entry, the node's layout is not changed.
    warnings: the controller's own Events in the cluster, by name.
    refusals: refusals of evictions, by the pod's uid.
    no_agents: node -> why its agent has not reported.
    no_operands: node -> why NVIDIA's operands do not serve it.
    present: the memberships of these nodes, if they are known already.
    """
    seen = _Seen(
        reports=reports,
        pods=pods,
        refusals=refusals,
        no_agents=no_agents,
        no_operands=no_operands,
        brought_keys=brought_keys(pools),
        progress_every_s=_said_every(sum(_waits(pool, now) for pool in pools)),
        now=now,
    )
    outcome = _Outcome()
    stranded = left_over(pools, nodes)
    outcome.actions += stranded.values()
    for pool, pool_nodes in _present(pools, nodes, present):
        try:
            of_pool = _decide_pool(pool, pool_nodes, seen)
        except Exception as e:  # noqa: BLE001 - one pool must not stop the others
            outcome.faults.append(Fault(subject=f"pool {pool.name}", error=e))
            continue
        outcome.add(_holds_only(of_pool) if pool.unreadable else of_pool)
    _decide_departures(pools, nodes, stranded, seen, outcome)
    outcome.actions += finalizers_to_remove(pools, nodes)
    left_alone = {pool.name for pool in pools if pool.unreadable} | outcome.failed_pools()
    _decide_events(warnings, left_alone, now, outcome)
    return Decision(
        actions=(*outcome.holds, *outcome.actions),
        look_again=min((at for at in outcome.deadlines if at > now), default=None),
        faults=tuple(outcome.faults),
    )


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """The parts of the cluster that the decisions about all pools share. See `decide`."""

    reports: Mapping[str, Report]
    pods: Mapping[str, tuple[NodePod, ...]]
    refusals: Mapping[str, Refusal]
    no_agents: Mapping[str, str]
    no_operands: Mapping[str, str]
    brought_keys: AbstractSet[str]
    progress_every_s: float
    now: float


@dataclass(kw_only=True)
class _Outcome:
    """The decision under construction, about one pool or about all."""

    holds: list[Action] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    deadlines: list[float] = field(default_factory=list)
    events: dict[str, EmitEvent] = field(default_factory=dict)
    """The warnings that are to exist, by name."""
    faults: list[Fault] = field(default_factory=list)

    def warn(self, event: EmitEvent) -> None:
        self.events[event.name] = event

    def add(self, other: _Outcome) -> None:
        self.holds += other.holds
        self.actions += other.actions
        self.deadlines += other.deadlines
        self.events |= other.events

    def failed_pools(self) -> set[str]:
        return {fault.subject.removeprefix("pool ") for fault in self.faults}


def _holds_only(outcome: _Outcome) -> _Outcome:
    """Returns the part of a decision that is safe for an unreadable pool: keeping new pods away.

    Its nodes are not released, uncordoned, changed or relabelled, and its status is not written.
    """
    return _Outcome(holds=outcome.holds, deadlines=outcome.deadlines)


def _decide_pool(pool: Pool, pool_nodes: Sequence[Node], seen: _Seen) -> _Outcome:
    outcome = _Outcome()
    now, deadlines = seen.now, outcome.deadlines
    by_itself, watched = _assessed(pool, pool_nodes, seen)
    losing = partial(_must_hold, pool, seen.reports)
    rollout = decide_rollout(
        pool,
        [(node, by_itself[node.name]) for node in pool_nodes],
        seen.pods,
        seen.refusals,
        now,
        must_hold=losing,
    )
    members = []
    for node in pool_nodes:
        turn = rollout.turns.get(node.name)
        assessment = (turn.assessment if turn else None) or by_itself[node.name]
        watched_now = watched.get(node.name, NOTHING)
        deadlines += watched_now.deadlines
        if turn:
            deadlines += turn.deadlines
        member = member_of(node, assessment, now, deadlines)
        members.append(member)
        join = joining(node, pool, seen.brought_keys)
        if join and node.joined is None:
            # An existing node must carry the note before anything else is done to it, so that all
            # can be undone.
            outcome.actions.append(join)
            continue
        why = losing(node, assessment)
        if turn and turn.hold:
            why = why or "its layout changes"
        if watched_now.hold:
            why = why or "an operand is to be restarted"
        if why and not node.held:
            outcome.holds.append(_hold(node, why))
        elif turn:
            # Before its condition, because that write changes the node's version.
            outcome.actions += turn.actions or watched_now.actions
        else:
            outcome.actions += watched_now.actions
        if join:
            outcome.actions.append(join)
        outcome.actions += _node_actions(member, pool, seen.pods.get(node.name), now)
        if (
            node.desired_state_annotation != pool.desired_state_annotation
            and node.mig_config == pool.mig_config is not None
        ):
            outcome.actions.append(
                SetDesiredState(
                    node=node.name, desired_state_annotation=pool.desired_state_annotation
                )
            )
        if why and _is_no_longer_proven(node, pool):
            outcome.actions.append(
                RecordBoot(node=node.name, boot_id=node.verified_boot, layout=None)
            )
        if (
            not why
            and not watched_now.hold_if_room
            and node.name in rollout.waiting
            and (
                (
                    _is_as_it_was_proven(node, pool, seen.reports.get(node.name))
                    and (not pool.driver or by_itself[node.name].driver)
                )
                or _lacks_only_its_driver(node, by_itself[node.name])
            )
        ):
            outcome.actions += _lift(node, pool)
    outcome.holds += _holds_of_silent_drivers(pool, pool_nodes, watched, outcome)
    outcome.actions += quarantine(pool, members)
    _tell_of_pool(pool, members, pool_status(pool, members, rollout, now), seen, outcome)
    return outcome


def _holds_of_silent_drivers(
    pool: Pool, pool_nodes: Sequence[Node], watched: Mapping[str, Watch], outcome: _Outcome
) -> list[AddStartupTaint]:
    """Holds nodes whose driver does not answer, up to the pool's limit of nodes that are out.

    If all drivers of a pool fall silent at once, a common cause is as likely as each single one,
    and a pool without nodes would hurt more than GPUs that may be dead.
    """
    out = {n.name for n in pool_nodes if n.held or n.unschedulable or n.change or not n.ready}
    out |= {action.node for action in outcome.holds if isinstance(action, AddStartupTaint)}
    out |= {action.node for action in outcome.actions if isinstance(action, CordonNode)}
    silent_nodes = [
        node
        for node in pool_nodes
        if node.name not in out and watched.get(node.name, NOTHING).hold_if_room
    ]
    room = max(0, pool.policy.limit(len(pool_nodes)) - len(out))
    return [_hold(node, "its driver does not answer") for node in silent_nodes[:room]]


def _assessed(
    pool: Pool, pool_nodes: Sequence[Node], seen: _Seen
) -> tuple[dict[str, Assessment], dict[str, Watch]]:
    """Returns each node's own assessment, and the watchdog's result for those that need it."""
    by_itself = {
        node.name: assess(
            node,
            pool,
            seen.reports.get(node.name),
            seen.now,
            no_agent=seen.no_agents.get(node.name),
            no_operands=seen.no_operands.get(node.name),
        )
        for node in pool_nodes
    }
    watched = {
        node.name: watch(
            node,
            pool,
            by_itself[node.name],
            seen.no_operands.get(node.name),
            seen.pods.get(node.name),
            seen.now,
        )
        for node in pool_nodes
        # Thousands are in order, and the watchdog has no note on them.
        if node.stuck or by_itself[node.name].status != "True"
    }
    by_itself |= {name: one.assessment for name, one in watched.items() if one.assessment}
    return by_itself, watched


def _tell_of_pool(
    pool: Pool, members: Sequence[Member], status: Mapping[str, Any], seen: _Seen, outcome: _Outcome
) -> None:
    """Adds the pool's status, and the Warning Events about it and its nodes."""
    now = seen.now
    # If a whole pool fails, its first nodes are enough: no one reads thousands of events.
    for member in [m for m in members if m.warns][:MAX_FAILING_NODES]:
        assessment = member.assessment
        outcome.warn(_warning(pool, member.node, assessment.reason, assessment.message, now))
    if status != pool.status:
        # In a merge patch, omitted keys would stay.
        gone = {key: None for key in pool.status if key not in status}
        outcome.actions.append(SetPoolStatus(pool=pool.name, status={**status, **gone}))
    if (asked := pool.request_after_undo) is not None:
        outcome.actions.append(
            EndUndo(pool=pool.name, old_request=pool.rollout_request, new_request=asked)
        )
    if since := status.get("tooFewSince"):
        outcome.deadlines.append(seconds(since) + TOO_FEW_LIMIT_S)
    if pool.no_undo:
        message = f"it cannot be undone: {pool.no_undo}"
        outcome.warn(_event(pool, "UndoNotPossible", message, now))
    progress = _still_waiting(pool, status, seen.progress_every_s, now, outcome.deadlines)
    if progress:
        outcome.warn(progress)


def _decide_departures(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    stranded: Mapping[str, ChangeAction],
    seen: _Seen,
    outcome: _Outcome,
) -> None:
    """Adds the next step of each existing node that leaves its pool, or has lost it."""
    for node, pool in departing(pools, nodes):
        if node.name in stranded:
            continue
        match next_step(node, pool, _gpu_pods(seen.pods.get(node.name)), seen.brought_keys):
            case DisableMig() if node.held:
                outcome.actions.append(
                    SetMigConfig(node=node.name, version=node.version, value=DEFAULT_MIG_CONFIG)
                )
            case DisableMig():
                outcome.holds.append(_hold(node, "it leaves its pool, and MIG is disabled"))
            case Waiting(pool=leaving, reason=reason, message=message):
                outcome.warn(_warning(leaving, node, reason, message, seen.now))
            case ClearNodeCondition() | ReleaseNode() as step:
                outcome.actions.append(step)


def _decide_events(
    warnings: Mapping[str, WarningEvent],
    left_alone: Container[str],
    now: float,
    outcome: _Outcome,
) -> None:
    """Writes warnings that are new or due again, and deletes warnings that no longer hold.

    left_alone: pools without a decision in this pass, so that their warnings stay.
    """
    for name, event in outcome.events.items():
        old = warnings.get(name)
        # A time in the future is from somebody else's Event, and would keep ours from being
        # written.
        due = min(old.last_seen, now) + REPEAT_WARNING_S if old else now
        if due <= now:
            outcome.actions.append(event)
            due = now + REPEAT_WARNING_S
        outcome.deadlines.append(due)
    outcome.actions += [
        RetractEvent(name=name)
        for name in warnings
        if name not in outcome.events and name.rpartition(".")[0] not in left_alone
    ]


def _present(pools: Sequence[Pool], nodes: Sequence[Node], present: Present | None) -> Present:
    return memberships(pools, nodes) if present is None else present


def to_inspect(
    pools: Sequence[Pool], nodes: Sequence[Node], now: float, *, present: Present | None = None
) -> tuple[str, ...]:
    """Returns the nodes whose next step depends on their pods, each once.

    present: as in `decide`.
    """
    changing = (
        node.name
        for pool, members in _present(pools, nodes, present)
        for node in members
        if needs_pods(node, pool)
    )
    return tuple(dict.fromkeys((*changing, *to_disable(pools, nodes), *due(pools, nodes, now))))


def silent_agents(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    reports: Mapping[str, Report],
    now: float,
    *,
    present: Present | None = None,
) -> dict[str, str]:
    """Returns node -> its pool, for nodes whose agent has never reported, or not for too long.

    present: as in `decide`.
    """
    return {
        node.name: pool.name
        for pool, members in _present(pools, nodes, present)
        for node in members
        if node.name not in reports or now >= reports[node.name].time + REPORT_AGE_LIMIT_S
    }


class UnverifiedNodes(NamedTuple):
    """Nodes that were not verified when last assessed."""

    examples: tuple[Node, ...]
    """The first few nodes of each pool. Their messages stand for the others."""
    remaining: tuple[Node, ...]


def unverified_nodes(
    pools: Sequence[Pool], nodes: Sequence[Node], *, present: Present | None = None
) -> UnverifiedNodes:
    """Returns the nodes that were not verified when last assessed.

    present: as in `decide`.
    """
    examples: list[Node] = []
    others: list[Node] = []
    for _, members in _present(pools, nodes, present):
        waiting = [m for m in members if m.condition is None or m.condition.status != "True"]
        examples += waiting[:EXAMPLES]
        others += waiting[EXAMPLES:]
    return UnverifiedNodes(examples=tuple(examples), remaining=tuple(others))


def _node_actions(
    member: Member, pool: Pool, pods: tuple[NodePod, ...] | None, now: float
) -> list[Action]:
    node, assessment = member.node, member.assessment
    actions: list[Action] = []
    layout = boot = None
    if fresh(node) and must_change(node, pool) and _gpu_pods(pods) == ():
        assert pool.mig_config is not None
        layout = SetMigConfig(
            node=node.name,
            version=node.version,
            value=pool.mig_config,
            desired_state_annotation=pool.desired_state_annotation,
            reports_after=assessment.matched,
        )
    if assessment.status == "True" and (
        (node.verified_boot, node.verified_layout) != (node.boot_id, pool.mig_config or "")
    ):
        boot = RecordBoot(node=node.name, boot_id=node.boot_id, layout=pool.mig_config)
    if node.condition is None or not says(node.condition, assessment):
        actions.append(
            SetNodeCondition(
                node=node.name,
                status=assessment.status,
                reason=assessment.reason,
                message=assessment.message,
                changed=member.changed,
                now=now,
                boot=boot,
                layout=layout,
            )
        )
    else:
        actions += filter(None, (layout, boot))
    if assessment.status == "True" and node.held:
        actions += _lift(node, pool)
    # Alone, as it needs the node's version. A change that has begun ends with the note's removal.
    if not actions and assessment.status == "True" and node.reports_after and not node.change:
        actions.append(ClearReportsAfter(node=node.name, version=node.version))
    return actions


def _lift(node: Node, pool: Pool) -> list[Action]:
    positions = [i for i, key in enumerate(node.taint_keys) if key == STARTUP_TAINT_KEY]
    layout = None if pool.mig_config is None else node.mig_config
    # From the back, so that a removal does not move the next one.
    return [
        RemoveStartupTaint(node=node.name, position=i, boot_id=node.boot_id, layout=layout)
        for i in reversed(positions)
    ]


def _is_no_longer_proven(node: Node, pool: Pool) -> bool:
    """True if the record of the node's layout is to be forgotten, as the node has to be held.

    False if the node is only away, because it is the same when it is back. Also False if the record
    shows that somebody has changed the label.
    """
    return bool(node.verified_layout) and node.ready and not relabelled(node, pool)


def _is_as_it_was_proven(node: Node, pool: Pool, report: Report | None) -> bool:
    """True if a node waiting in the rollout queue still has the layout it was last verified with.

    Its agent cannot prove the old layout any more. Such a node was held because it was not Ready
    for a while. Without this check it would stay held until its turn, however long the rollout is
    paused.

    The node's annotations alone are not enough. Its agent must have reported in this boot. If the
    agent has found a mismatch, as it does when it compares the node with the new layout, the pool
    must have been verified with the layout that the node has.
    """
    if report is None or (report.owner_uid, report.boot_id) != (node.uid, node.boot_id):
        return False
    if report.verdict == "Mismatch" and node.mig_config not in _proven_layouts(pool):
        return False
    return (
        node.held
        and node.quarantine_at is None
        and node.ready
        and node.verified_boot == node.boot_id
        and bool(node.verified_layout)
        and node.verified_layout == node.mig_config
        and node.mig_state == "success"
        and not node.paused
    )


def _proven_layouts(pool: Pool) -> frozenset[str]:
    """Returns the pool's verified layouts, by its status, which only the controller writes."""
    return frozenset(layout.mig_config for layout in earlier(pool.status))


def _lacks_only_its_driver(node: Node, base: Assessment) -> bool:
    """True if a node waiting in the rollout queue lacks only its driver: its agent proves the rest,
    in the same boot that was verified before.
    """
    return (
        node.held
        and node.quarantine_at is None
        and node.verified_boot == node.boot_id
        and base.reason == "DriverNotUpgraded"
    )


def _gpu_pods(pods: tuple[NodePod, ...] | None) -> tuple[str, ...] | None:
    """Returns the names of pods that use GPUs, or None if the pods are not known."""
    return None if pods is None else tuple(sorted(pod.path for pod in pods if pod.gpus))


def _must_hold(
    pool: Pool, reports: Mapping[str, Report], node: Node, assessment: Assessment
) -> str | None:
    """Returns why no new pods may come to the node, or None if they may.

    With a reason, the node's assessment is never True, so it never releases a node that is held
    here.
    """
    report = reports.get(node.name)
    if not node.ready:
        return "not Ready"
    if assessment.status != "True" and node.boot_id != _last_verified_boot(node, report):
        return "booted since it was verified"
    if assessment.mismatch:
        return assessment.reason
    if pool.mig_config and node.mig_state in BUSY_STATES:
        return "mig-manager changes its partitions"
    return None


def _last_verified_boot(node: Node, report: Report | None) -> str:
    """Returns the last verified boot of the node, as far as the objects tell, or else this boot.

    Without the annotation (a node that an older controller released, or that never had the taint)
    the boot of its report is the best source.
    """
    if node.verified_boot:
        return node.verified_boot
    if report is not None and report.owner_uid == node.uid:
        return report.boot_id
    return node.boot_id


def _hold(node: Node, why: str) -> AddStartupTaint:
    return AddStartupTaint(
        node=node.name, version=node.version, has_taints=bool(node.taint_keys), why=why
    )


def _warning(pool: Pool, node: Node, reason: str, about: str, now: float) -> EmitEvent:
    return _event(pool, reason, f"node {node.name}: {about}", now)


def _event(
    pool: Pool, reason: str, message: str, now: float, *, named: str | None = None
) -> EmitEvent:
    """Creates the Event.

    named: the text that its name is derived from, so that it is written once. Its message by
    default.
    """
    about = f"{pool.uid} {reason} {named or message}"
    digest = hashlib.sha256(about.encode(errors="surrogatepass")).hexdigest()
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


def _said_every(waiting: int) -> float:
    """Returns the interval in seconds for a number of waiting pools.

    Each step is twice the one before, so that few texts change when the number of pools does.
    """
    every = PROGRESS_EVENT_INTERVAL_S
    while waiting > every * PROGRESS_EVENTS_PER_SECOND:
        every *= 2
    return every


def _still_waiting(
    pool: Pool, status: Mapping[str, Any], every: float, now: float, deadlines: list[float]
) -> EmitEvent | None:
    """Returns the Event that a waiting `pulumi up` shows, with another text after each interval.

    every: the interval in seconds.

    If a condition is False, the provider shows neither reason nor message, and every text only once
    (pulumi/pulumi-kubernetes #4428). It shows Warning Events as they come.
    """
    if not status.get("waitingSince") or status["waitingSince"] != pool.status.get("waitingSince"):
        return None  # It has settled, or the wait is not written down yet: the next pass sees it.
    if not _waits(pool, now):
        return None
    since = seconds(status["waitingSince"])
    said = int((now - since) / every)
    deadlines.append(since + (said + 1) * every)
    if said < 1:
        return None
    (settled,) = (c for c in status["conditions"] if c["type"] == SETTLED)
    after = f"after {int(said * every)} s"
    # All other messages can wait until the next time: every node that joins changes them.
    named = f"{after} since {status['waitingSince']}"
    return _event(pool, "NotYetVerified", f"{after}: {settled['message']}", now, named=named)
