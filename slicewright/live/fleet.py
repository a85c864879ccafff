"""The state of a fleet, from the objects of its cluster. Pure.

What is said of a pool is what the fleet controller has written; what will happen is asked of the
controller's own decision (`fleet_controller.forecast`). So status and controller cannot disagree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fleet_controller.api import DEGRADED, PROGRESSING, VERIFIED
from fleet_controller.assess import assess
from fleet_controller.drain import NodePod, Refusal, read_pod
from fleet_controller.forecast import forecast
from fleet_controller.known_layouts import target_of_undo
from fleet_controller.layout_change import Change, change_of
from fleet_controller.membership import Present, memberships
from fleet_controller.node_change import STILL_RUNNING
from fleet_controller.pool_status import UNDONE
from fleet_controller.rollout import Assessed, Rollout, decide_rollout
from fleet_controller.state import Condition, Node, Pool
from fleet_controller.wanted import has_layout
from slicewright.live import next_steps
from slicewright.live.blockers import Blocker, blockers
from slicewright.live.budgets import refusals
from slicewright.live.objects import UnreadObject
from slicewright.live.reading import Found
from telemetry.plain import shortened

_Look = tuple[str, bool | None, tuple[tuple[str, int], ...]]
"""Of a GPU: model, MIG mode, and the number of instances by profile."""


_WAVES = 6
"""That are worked out: each takes one decision of the controller's over all nodes."""
_LONGEST_MESSAGE = 4096
"""Of a condition. Its writers keep to less: anybody who may write it can write more."""
_LONGEST_WORD = 253
_OF_A_DRAIN = ("Draining", "ChangeHeldByPods")
"""Reasons that say which pods a node waits for, as it was when they were written."""
_MIG: Mapping[str, bool] = {"enabled": True, "disabled": False, "unsupported": False}
"""By what a report says of a GPU."""


class State(Enum):
    """Of a pool, the best first."""

    VERIFIED = "verified"
    SETTING_UP = "being set up"
    CHANGING = "changing"
    STOPPED = "stopped"
    """Paused or aborted by people."""
    UNDONE = "undone"
    """Verified with an earlier layout than the stack file declares, as people have asked."""
    DEGRADED = "degraded"
    """Wrong in a way that does not pass by itself."""
    MISSING = "missing"
    """The stack file has it, and the cluster has not."""

    @property
    def waits(self) -> bool:
        """Whether it may get better without help."""
        return self in (State.SETTING_UP, State.CHANGING)


@dataclass(frozen=True, kw_only=True)
class GpuGroup:
    """GPUs of one pool that look the same."""

    model: str
    mig: bool | None
    """None: not known."""
    instances: Mapping[str, int]
    """Profile -> number on each of them."""
    gpus: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NodeView:
    name: str
    zone: str
    verified: bool
    held: bool
    """Whether the startup taint keeps new pods away."""
    quarantined: bool
    """Whether it ends those that are there, too."""
    cordoned: bool
    ready: bool
    layout: str
    """Value of nvidia.com/mig.config; empty: none."""
    phase: str
    """Of the change of its layout; empty: none."""
    since: float | None
    """When the phase began, or its condition changed; seconds since the epoch."""
    reason: str
    message: str
    blockers: tuple[Blocker, ...]
    next: str
    """What to do; empty: nothing, or what the message says."""


@dataclass(frozen=True, kw_only=True)
class RolloutView:
    layout: str
    """That is wanted."""
    asked: str
    """`paused` or `aborted`; empty: nothing."""
    done: int
    changing: tuple[str, ...]
    cut: tuple[str, ...]
    """Of these, nodes whose label is set, or whose driver is replaced: they are finished, whatever
    is asked.
    """
    failed: tuple[str, ...]
    waves: tuple[tuple[str, ...], ...]
    """Nodes that are or will be out together, in their order; the next few."""
    later: tuple[str, ...]
    """Nodes after these."""
    left: tuple[str, ...]
    """Nodes that cannot begin as things are."""


@dataclass(frozen=True, kw_only=True)
class PoolView:
    name: str
    state: State
    reason: str
    message: str
    wanted: tuple[int, int]
    """The fewest and the most nodes."""
    total: int
    verified: int
    held: int
    layout: str
    """That its nodes are to have now."""
    declared: str
    """That its stack file declares; another one where the change to it is undone."""
    earlier: str
    """To which an undo would go back, or has gone; empty: it cannot be undone."""
    no_undo: str
    """Why not; empty where it can."""
    undo_helps: bool = False
    """Whether somebody has begun a change of its layout, and an undo would take it back."""
    gpus: tuple[GpuGroup, ...]
    rollout: RolloutView | None
    nodes: tuple[NodeView, ...]
    """Those that need attention first."""
    next: tuple[str, ...]
    """What to do, without what is said at its nodes."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    pools: tuple[PoolView, ...]
    notes: tuple[str, ...]
    """What makes the rest less sure."""
    unread: tuple[UnreadObject, ...] = ()
    """Objects of the cluster that are left out."""

    @property
    def worst(self) -> State:
        """VERIFIED also where there is no pool."""
        order = list(State)
        return max((pool.state for pool in self.pools), key=order.index, default=State.VERIFIED)


def fleet_of(found: Found, wanted: Collection[str] | None, now: float) -> Fleet:
    """wanted: names of the pools to show; None for all."""
    members = memberships(found.pools, found.nodes)
    refused = _refused(members, found)
    views = [
        _pool(pool, nodes, found, refused, now)
        for pool, nodes in members
        if wanted is None or pool.name in wanted
    ]
    known = {pool.name for pool, _ in members} | found.unread_pools
    views += [_missing(name) for name in sorted(set(wanted or ()) - known)]
    return Fleet(
        pools=tuple(views),
        notes=(*_controller(found), *found.unread),
        unread=found.unread_objects,
    )


def _refused(members: Present, found: Found) -> Mapping[str, str]:
    """Pods that disruption budgets hold on nodes that are drained, of all pools together -> why."""
    drains = [
        (found.pods[node.name], pool.policy.drain)
        for pool, nodes in members
        for node in nodes
        if node.name in found.pods and change_of(node) is not None
    ]
    return refusals(drains, found.budgets)


def _controller(found: Found) -> list[str]:
    # Without a pool it may never have been there; where its pods wait, `up` waits for them.
    if found.controller != 0 or not (found.pools or found.controller_waits):
        return []
    why = shortened(found.controller_waits, 300)
    command = "kubectl -n slicewright-system describe deployment fleet-controller"
    return [
        "the fleet controller does not run, so nothing is released, held or changed, and what "
        f"follows may be old; {why or f'`{command}`'}"
    ]


def _pool(
    pool: Pool, nodes: Sequence[Node], found: Found, refused: Mapping[str, str], now: float
) -> PoolView:
    assessed = [(node, assess(node, pool, found.reports.get(node.name), now)) for node in nodes]
    pods = {name: tuple(map(read_pod, there)) for name, there in found.pods.items()}
    held = {
        pod.uid: Refusal(why=refused[pod.path], retry_at=now)
        for node in nodes
        for pod in pods.get(node.name, ())
        if pod.path in refused
    }
    rollout = decide_rollout(pool, assessed, pods, held, now)
    target = target_of_undo(pool.declared, pool.status)
    undo_helps = not isinstance(target, str) and _is_begun(pool, nodes)
    views = tuple(
        sorted(
            (_node(node, pool, found, rollout, refused, undo=undo_helps) for node in nodes),
            key=_attention,
        )
    )
    state, reason, message = _said(pool, rollout)
    return PoolView(
        name=pool.name,
        state=state,
        reason=shortened(reason, _LONGEST_WORD),
        message=shortened(_as_now(message, nodes, views), _LONGEST_MESSAGE),
        wanted=(pool.fewest, found.most[pool.name]),
        total=len(nodes),
        verified=sum(view.verified for view in views),
        held=sum(view.held for view in views),
        layout=pool.mig_config or "",
        declared=pool.declared.mig_config if pool.declared else "",
        earlier="" if isinstance(target, str) else target.mig_config,
        no_undo=shortened(target, _LONGEST_MESSAGE) if isinstance(target, str) else "",
        undo_helps=undo_helps,
        gpus=gpu_groups(nodes, found.gpus),
        rollout=_rollout(pool, assessed, pods, rollout) if rollout.active else None,
        nodes=views,
        next=tuple(_next(pool, state, reason, undo=undo_helps)),
    )


def _is_begun(pool: Pool, nodes: Sequence[Node]) -> bool:
    """Whether nodes that were in service with another layout are to have the one that is declared:
    a node whose label somebody has changed is no change of the pool's.
    """
    if pool.declared is None or pool.undone:
        return False
    return any(node.verified_layout not in ("", pool.declared.mig_config) for node in nodes)


def _as_now(message: str, nodes: Sequence[Node], views: Sequence[NodeView]) -> str:
    """A pool's message, where it repeats those of nodes, with what is said of these nodes."""
    said = {view.name: view.message for view in views}
    for node in nodes:
        known = node.condition
        if known is not None and known.message and known.reason in _OF_A_DRAIN:
            message = message.replace(known.message, said[node.name])
    return message


def _rollout(
    pool: Pool,
    assessed: Sequence[Assessed],
    pods: Mapping[str, tuple[NodePod, ...]],
    rollout: Rollout,
) -> RolloutView:
    ahead = forecast(pool, assessed, pods, most=_WAVES)
    changes = [(node, change) for node, _ in assessed if (change := change_of(node))]
    return RolloutView(
        layout=rollout.wanted,
        asked=pool.suspended,
        done=rollout.done,
        changing=tuple(node.name for node, _ in changes),
        cut=tuple(node.name for node, change in changes if _no_way_back(change, node, pool)),
        failed=rollout.failed,
        waves=ahead.waves,
        later=ahead.later,
        left=ahead.left,
    )


def _no_way_back(change: Change, node: Node, pool: Pool) -> bool:
    if pool.driver is None or change.phase == "Applying":
        return has_layout(node, pool)
    return change.phase == "Upgrading"


def _missing(name: str) -> PoolView:
    return PoolView(
        name=name,
        state=State.MISSING,
        reason="NotThere",
        message="the cluster has no GPUPool of this name",
        wanted=(0, 0),
        total=0,
        verified=0,
        held=0,
        layout="",
        declared="",
        earlier="",
        no_undo="",
        gpus=(),
        rollout=None,
        nodes=(),
        next=("check the name and the cluster; `pulumi up` makes the pools of a stack file",),
    )


def _said(pool: Pool, rollout: Rollout) -> tuple[State, str, str]:
    """State, reason and message, by the conditions that the controller has written."""
    verified, degraded = pool.condition(VERIFIED), pool.condition(DEGRADED)
    if verified is None or degraded is None or verified.generation < pool.generation:
        return (
            State.SETTING_UP,
            "NotSeenYet",
            "the fleet controller has not looked at this generation of the pool yet",
        )
    if _true(verified):
        return State.VERIFIED, verified.reason, verified.message
    if pool.suspended and rollout.stopped == pool.suspended:
        return State.STOPPED, verified.reason, verified.message
    if verified.reason == UNDONE and pool.undone:
        return State.UNDONE, verified.reason, verified.message
    if _true(degraded):
        return State.DEGRADED, degraded.reason, degraded.message
    going = pool.condition(PROGRESSING)
    if rollout.active:
        return State.CHANGING, (going or verified).reason, (going or verified).message
    return State.SETTING_UP, verified.reason, verified.message


def _true(condition: Condition) -> bool:
    return condition.status == "True"


def _next(pool: Pool, state: State, reason: str, *, undo: bool) -> list[str]:
    if state is State.VERIFIED:
        return []
    reasons = [reason]
    if (going := pool.condition(PROGRESSING)) is not None and going.generation >= pool.generation:
        reasons.append(going.reason)
    steps = [next_steps.of_pool(one, pool=pool.name, undo=undo) for one in reasons]
    return [step for step in dict.fromkeys(steps) if step][:1]


def _node(
    node: Node,
    pool: Pool,
    found: Found,
    rollout: Rollout,
    refused: Mapping[str, str],
    *,
    undo: bool,
) -> NodeView:
    change, said = change_of(node), node.condition
    verified = said is not None and said.status == "True"
    held = _holders(node, change, pool, found, refused)
    reason, message = _words(node, rollout, held)
    return NodeView(
        name=node.name,
        zone=shortened(node.zone, _LONGEST_WORD),
        verified=verified,
        held=node.held,
        quarantined=node.quarantine_at is not None,
        cordoned=node.unschedulable,
        ready=node.ready,
        layout=node.mig_config or "",
        phase=change.phase if change else "",
        since=_since(change, said),
        reason=shortened(reason, _LONGEST_WORD),
        message=shortened(message, _LONGEST_MESSAGE),
        blockers=held,
        next=""
        if verified
        else next_steps.of_node(reason, node=node.name, pool=pool.name, undo=undo),
    )


def _holders(
    node: Node, change: Change | None, pool: Pool, found: Found, refused: Mapping[str, str]
) -> tuple[Blocker, ...]:
    pods = found.pods.get(node.name)
    if pods is None or change is None or change.phase == "Applying":
        return ()
    stands = pool.suspended and f"the rollout is {pool.suspended}: it is not asked to leave"
    if change.phase == "Failed":
        stands = "the change has failed: it is not asked to leave again"
    return blockers(pods, found.budgets, pool.policy.drain, refused=refused, stands=stands)


def _words(node: Node, rollout: Rollout, held: Sequence[Blocker]) -> tuple[str, str]:
    """Reason and message as the controller has written them. Of a drain, what it would write now:
    budgets may allow by now what they refused then, and the pods are listed by themselves.
    """
    said = node.condition
    if said is None:
        return "NotSeenYet", "the fleet controller has not looked at it yet"
    turn = rollout.turns.get(node.name)
    if not held or said.reason not in _OF_A_DRAIN or turn is None or turn.said is None:
        return said.reason, said.message
    return turn.said.reason, turn.said.message.partition(STILL_RUNNING)[0]


def _since(change: Change | None, said: Condition | None) -> float | None:
    if change is not None:
        return change.since
    return said.changed if said is not None and said.changed else None


def _attention(node: NodeView) -> tuple[bool, bool, bool, str]:
    return (
        node.phase != "Failed",
        not node.phase and not node.blockers,
        node.verified or node.reason == "WaitsForItsTurn",
        node.name,
    )


def gpu_groups(nodes: Sequence[Node], reports: Mapping[str, Any]) -> tuple[GpuGroup, ...]:
    """What the agents have found, equal GPUs together; the most frequent first."""
    found: dict[_Look, list[tuple[str, int]]] = {}
    for node in nodes:
        report = reports.get(node.name) or {}
        models: Sequence[Any] = report.get("models") or ()
        for entry in report.get("gpus") or ():
            model = entry.get("model") or (models[0] if len(models) == 1 else "")
            mig = _MIG.get(str(entry.get("mig")))
            instances = sorted((entry.get("instances") or {}).items())
            look = (
                shortened(str(model), _LONGEST_WORD),
                mig,
                tuple((shortened(profile, _LONGEST_WORD), count) for profile, count in instances),
            )
            found.setdefault(look, []).append((node.name, len(entry.get("indexes") or ())))
    groups = [_group(*look, there) for look, there in found.items()]
    return tuple(sorted(groups, key=lambda group: (-group.gpus, group.model, group.nodes)))


def _group(
    model: str,
    mig: bool | None,
    instances: tuple[tuple[str, int], ...],
    there: Sequence[tuple[str, int]],
) -> GpuGroup:
    return GpuGroup(
        model=model,
        mig=mig,
        instances=dict(instances),
        gpus=sum(count for _, count in there),
        nodes=tuple(dict.fromkeys(name for name, _ in there)),
    )
