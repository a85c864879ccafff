"""The state of a fleet, from the objects of its cluster. Pure.

The messages of a pool are those of the fleet controller, and predictions use the controller's
decisions (`slicewright.fleet_controller.rollout.forecast`). So status and controller cannot
disagree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from slicewright.apis.names import DEGRADED, PROGRESSING, VERIFIED
from slicewright.fleet_controller.membership.membership import Present, memberships
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.known_layouts import target_of_undo
from slicewright.fleet_controller.objects.layout_change import Change, change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod, read_pod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.pools.status import UNDONE
from slicewright.fleet_controller.rollout.drain import Refusal
from slicewright.fleet_controller.rollout.draining import STILL_RUNNING
from slicewright.fleet_controller.rollout.forecast import forecast
from slicewright.fleet_controller.rollout.rollout import Rollout, decide_rollout
from slicewright.fleet_controller.rollout.rollout_queue import Assessed
from slicewright.fleet_controller.rollout.wanted import has_layout
from slicewright.live import next_steps
from slicewright.live.blockers import Blocker, blockers
from slicewright.live.budgets import refusals
from slicewright.live.gpu_groups import gpu_groups
from slicewright.live.reading import ClusterObjects
from slicewright.live.shared_cards import cards_view
from slicewright.live.views import Fleet, NodeView, PoolView, RolloutView, State
from slicewright.telemetry.plain import shortened

_WAVES = 6
"""Number of waves to predict; each costs a decision of the controller over all nodes."""
_LONGEST_MESSAGE = 4096
"""Longest message of a condition. The controller writes less, but others could write more."""
_LONGEST_WORD = 253
_DRAIN_REASONS = ("Draining", "ChangeHeldByPods")
"""Reasons whose messages list blocking pods, which may have left since."""


def fleet_of(objects: ClusterObjects, names: Collection[str] | None, now: float) -> Fleet:
    """Returns the state of the named pools, or of all pools for None."""
    members = memberships(objects.pools, objects.nodes)
    refused = _refused(members, objects)
    views = [
        _pool(pool, nodes, objects, refused, now)
        for pool, nodes in members
        if names is None or pool.name in names
    ]
    existing = {pool.name for pool, _ in members} | objects.unread_pools
    views += [_missing(name) for name in sorted(set(names or ()) - existing)]
    return Fleet(
        pools=tuple(views),
        notes=(*_controller(objects), *objects.unread),
        unread=objects.unread_objects,
    )


def _refused(members: Present, objects: ClusterObjects) -> Mapping[str, str]:
    """Returns pods that disruption budgets keep on drained nodes of all pools -> reason."""
    drains = [
        (objects.pods[node.name], pool.policy.drain)
        for pool, nodes in members
        for node in nodes
        if node.name in objects.pods and change_of(node) is not None
    ]
    return refusals(drains, objects.budgets)


def _controller(objects: ClusterObjects) -> list[str]:
    # Without a pool it may never have been installed. If its pods wait, `up` waits for them.
    if objects.controller != 0 or not (objects.pools or objects.controller_waits):
        return []
    why = shortened(objects.controller_waits, 300)
    command = "kubectl -n slicewright-system describe deployment fleet-controller"
    return [
        "the fleet controller does not run, so no node is released, held or changed, and the "
        f"states below may be outdated; {why or f'`{command}`'}"
    ]


def _pool(
    pool: Pool,
    nodes: Sequence[Node],
    objects: ClusterObjects,
    refused: Mapping[str, str],
    now: float,
) -> PoolView:
    assessed = [(node, assess(node, pool, objects.reports.get(node.name), now)) for node in nodes]
    pods = {name: tuple(map(read_pod, node_pods)) for name, node_pods in objects.pods.items()}
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
            (_node(node, pool, objects, rollout, refused, undo=undo_helps) for node in nodes),
            key=_attention,
        )
    )
    state, reason, message = _condition_of(pool, rollout)
    return PoolView(
        name=pool.name,
        state=state,
        reason=shortened(reason, _LONGEST_WORD),
        message=shortened(_with_node_messages(message, nodes, views), _LONGEST_MESSAGE),
        node_bounds=(pool.fewest, objects.most[pool.name]),
        total=len(nodes),
        verified=sum(view.verified for view in views),
        held=sum(view.held for view in views),
        layout=pool.mig_config or "",
        declared=pool.declared.mig_config if pool.declared else "",
        earlier="" if isinstance(target, str) else target.mig_config,
        no_undo=shortened(target, _LONGEST_MESSAGE) if isinstance(target, str) else "",
        undo_helps=undo_helps,
        gpus=gpu_groups(nodes, objects.gpus),
        rollout=_rollout(pool, assessed, pods, rollout) if rollout.active else None,
        nodes=views,
        next=tuple(_next(pool, state, reason, undo=undo_helps)),
        cards=cards_view(
            pool,
            nodes,
            {name: tuple(map(read_pod, raws)) for name, raws in objects.sharing.items()},
            objects.pending,
        ),
    )


def _is_begun(pool: Pool, nodes: Sequence[Node]) -> bool:
    """True if nodes that were verified with another layout are to get the declared layout.

    A label that was changed by hand on a node is not a change of the pool.
    """
    if pool.declared is None or pool.undone:
        return False
    return any(node.verified_layout not in ("", pool.declared.mig_config) for node in nodes)


def _with_node_messages(message: str, nodes: Sequence[Node], views: Sequence[NodeView]) -> str:
    """Returns a pool's message with the current messages of the nodes that it repeats."""
    current = {view.name: view.message for view in views}
    for node in nodes:
        written = node.condition
        if written is not None and written.message and written.reason in _DRAIN_REASONS:
            message = message.replace(written.message, current[node.name])
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
        layout=rollout.wanted_layout,
        suspended=pool.suspended,
        done=rollout.done,
        changing=tuple(node.name for node, _ in changes),
        irreversible=tuple(
            node.name for node, change in changes if _is_irreversible(change, node, pool)
        ),
        failed=rollout.failed,
        waves=ahead.waves,
        later=ahead.later,
        blocked=ahead.blocked,
    )


def _is_irreversible(change: Change, node: Node, pool: Pool) -> bool:
    if pool.driver is None or change.phase == "Applying":
        return has_layout(node, pool)
    return change.phase == "Upgrading"


def _missing(name: str) -> PoolView:
    return PoolView(
        name=name,
        state=State.MISSING,
        reason="NotThere",
        message="the cluster has no GPUPool of this name",
        node_bounds=(0, 0),
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
        next=("check the name and the cluster; `pulumi up` creates the pools of a stack file",),
    )


def _condition_of(pool: Pool, rollout: Rollout) -> tuple[State, str, str]:
    """Returns state, reason and message from the controller's conditions."""
    verified, degraded = pool.condition(VERIFIED), pool.condition(DEGRADED)
    if verified is None or degraded is None or verified.generation < pool.generation:
        return (
            State.SETTING_UP,
            "NotSeenYet",
            "the fleet controller has not processed this generation of the pool yet",
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
    steps = [next_steps.pool_step(each, pool=pool.name, undo=undo) for each in reasons]
    return [step for step in dict.fromkeys(steps) if step][:1]


def _node(
    node: Node,
    pool: Pool,
    objects: ClusterObjects,
    rollout: Rollout,
    refused: Mapping[str, str],
    *,
    undo: bool,
) -> NodeView:
    change, condition = change_of(node), node.condition
    verified = condition is not None and condition.status == "True"
    held = _blockers_of(node, change, pool, objects, refused)
    reason, message = _reason_and_message(node, rollout, held)
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
        since=_since(change, condition),
        reason=shortened(reason, _LONGEST_WORD),
        message=shortened(message, _LONGEST_MESSAGE),
        blockers=held,
        next=""
        if verified
        else next_steps.node_step(reason, node=node.name, pool=pool.name, undo=undo),
    )


def _blockers_of(
    node: Node,
    change: Change | None,
    pool: Pool,
    objects: ClusterObjects,
    refused: Mapping[str, str],
) -> tuple[Blocker, ...]:
    pods = objects.pods.get(node.name)
    if pods is None or change is None or change.phase == "Applying":
        return ()
    stands = pool.suspended and f"not evicted while the rollout is {pool.suspended}"
    if change.phase == "Failed":
        stands = "not evicted again, because the change has failed"
    return blockers(pods, objects.budgets, pool.policy.drain, refused=refused, stands=stands)


def _reason_and_message(node: Node, rollout: Rollout, held: Sequence[Blocker]) -> tuple[str, str]:
    """Returns reason and message as written by the controller; during a drain, as it would write
    them now, without the pods, which are listed separately: budgets may have changed since.
    """
    condition = node.condition
    if condition is None:
        return "NotSeenYet", "the fleet controller has not processed it yet"
    turn = rollout.turns.get(node.name)
    if (
        not held
        or condition.reason not in _DRAIN_REASONS
        or turn is None
        or turn.assessment is None
    ):
        return condition.reason, condition.message
    return turn.assessment.reason, turn.assessment.message.partition(STILL_RUNNING)[0]


def _since(change: Change | None, condition: Condition | None) -> float | None:
    if change is not None:
        return change.since
    return condition.changed if condition is not None and condition.changed else None


def _attention(node: NodeView) -> tuple[bool, bool, bool, str]:
    return (
        node.phase != "Failed",
        not node.phase and not node.blockers,
        node.verified or node.reason == "WaitsForItsTurn",
        node.name,
    )
