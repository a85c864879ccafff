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
from fleet_controller.drain import read_pod
from fleet_controller.forecast import forecast
from fleet_controller.known_layouts import target_of_undo
from fleet_controller.layout_change import Change, change_of
from fleet_controller.membership import memberships
from fleet_controller.pool_status import UNDONE
from fleet_controller.rollout import Rollout, decide_rollout
from fleet_controller.state import Condition, Node, Pool
from fleet_controller.wanted import has_layout
from slicewright.live import next_steps
from slicewright.live.blockers import Blocker, blockers
from slicewright.live.reading import Found
from telemetry.plain import plain

_Look = tuple[str, bool | None, tuple[tuple[str, int], ...]]
"""Of a GPU: model, MIG mode, and the number of instances by profile."""


_WAVES = 6
"""That are worked out: each takes one decision of the controller's over all nodes."""
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

    @property
    def worst(self) -> State:
        """VERIFIED also where there is no pool."""
        order = list(State)
        return max((pool.state for pool in self.pools), key=order.index, default=State.VERIFIED)


def fleet_of(found: Found, wanted: Collection[str] | None, now: float) -> Fleet:
    """wanted: names of the pools to show; None for all."""
    members = memberships(found.pools, found.nodes)
    views = [
        _pool(pool, nodes, found, now)
        for pool, nodes in members
        if wanted is None or pool.name in wanted
    ]
    known = {pool.name for pool, _ in members}
    views += [_missing(name) for name in sorted(set(wanted or ()) - known)]
    return Fleet(pools=tuple(views), notes=(*_controller(found), *found.unread))


def _controller(found: Found) -> list[str]:
    if found.controller != 0 or not found.pools:
        return []
    why = plain(found.controller_waits)
    command = "kubectl -n slicewright-system describe deployment fleet-controller"
    return [
        "the fleet controller does not run, so nothing is released, held or changed, and what "
        f"follows may be old; {why or f'`{command}`'}"
    ]


def _pool(pool: Pool, nodes: Sequence[Node], found: Found, now: float) -> PoolView:
    assessed = [(node, assess(node, pool, found.reports.get(node.name), now)) for node in nodes]
    pods = {name: tuple(map(read_pod, there)) for name, there in found.pods.items()}
    rollout = decide_rollout(pool, assessed, pods, {}, now)
    views = tuple(sorted((_node(node, pool, found) for node in nodes), key=_attention))
    state, reason, message = _said(pool, rollout)
    ahead = forecast(pool, assessed, pods, most=_WAVES)
    target = target_of_undo(pool.declared, pool.status)
    return PoolView(
        name=pool.name,
        state=state,
        reason=reason,
        message=plain(message),
        wanted=(pool.fewest, found.most[pool.name]),
        total=len(nodes),
        verified=sum(view.verified for view in views),
        held=sum(view.held for view in views),
        layout=pool.mig_config or "",
        declared=pool.declared.mig_config if pool.declared else "",
        earlier="" if isinstance(target, str) else target.mig_config,
        no_undo=target if isinstance(target, str) else "",
        gpus=gpu_groups(nodes, found.gpus),
        rollout=RolloutView(
            layout=rollout.wanted,
            asked=pool.suspended,
            done=rollout.done,
            changing=tuple(node.name for node in nodes if change_of(node)),
            cut=tuple(
                node.name
                for node in nodes
                if (change := change_of(node)) and _no_way_back(change, node, pool)
            ),
            failed=rollout.failed,
            waves=ahead.waves,
            later=ahead.later,
            left=ahead.left,
        )
        if rollout.active
        else None,
        nodes=views,
        next=tuple(_next(pool, state, reason)),
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


def _next(pool: Pool, state: State, reason: str) -> list[str]:
    if state is State.VERIFIED:
        return []
    reasons = [reason]
    if (going := pool.condition(PROGRESSING)) is not None and going.generation >= pool.generation:
        reasons.append(going.reason)
    steps = [next_steps.of_pool(one, pool=pool.name) for one in reasons]
    return [step for step in dict.fromkeys(steps) if step][:1]


def _node(node: Node, pool: Pool, found: Found) -> NodeView:
    change, said = change_of(node), node.condition
    verified = said is not None and said.status == "True"
    reason = said.reason if said else "NotSeenYet"
    message = said.message if said else "the fleet controller has not looked at it yet"
    pods = found.pods.get(node.name)
    held = (
        () if pods is None or change is None else blockers(pods, found.budgets, pool.policy.drain)
    )
    return NodeView(
        name=node.name,
        zone=node.zone,
        verified=verified,
        held=node.held,
        quarantined=node.quarantine_at is not None,
        cordoned=node.unschedulable,
        ready=node.ready,
        layout=node.mig_config or "",
        phase=change.phase if change else "",
        since=_since(change, said),
        reason=plain(reason),
        message=plain(message),
        blockers=held,
        next="" if verified else next_steps.of_node(reason, node=node.name, pool=pool.name),
    )


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
            look = (plain(str(model)), mig, tuple(sorted((entry.get("instances") or {}).items())))
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
