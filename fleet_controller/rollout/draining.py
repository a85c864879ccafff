"""The phases Draining and Paused: a cordoned node whose pods leave, or are left alone. Pure.

`node_change` has the table of all phases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from slicewright.apis.names import BUSY_STATES
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.rollout.change_actions import (
    ApplyLayout,
    ChangeAction,
    CordonNode,
)
from slicewright.fleet_controller.rollout.drain import Drain, drain, list_pods
from slicewright.fleet_controller.rollout.turn import (
    DRAIN_POLL_S,
    Observation,
    Turn,
    eviction,
    fail,
    leaving,
    move,
    planned,
    upgrade,
)

STILL_RUNNING = "; still running: "
"""Text before the pods that hold a node, in the message of its condition."""


class _Limits(NamedTuple):
    """The time limits of a drain, in seconds since the epoch."""

    force: float
    """Time when the policy's `onTimeout` applies."""
    end: float
    """Time when the change has failed. Later than `force` if pods are then evicted by force."""


def advance_draining(observed: Observation) -> Turn:
    """Evicts the pods, and goes on when they have left."""
    if observed.has_layout and observed.has_driver:
        return Turn(actions=(move(observed, "Applying"),), assessment=observed.base)
    if observed.pool.suspended:
        return _leave_alone(observed, move(observed, "Paused"))
    if not observed.node.unschedulable:
        return _cordon_again(observed)
    limits, now = _limits(observed), observed.now
    deadlines = tuple(at for at in (*limits, now + DRAIN_POLL_S) if at > now)
    if observed.pods is None:
        assessment = planned(observed.base, "Draining", leaving(observed))
        return Turn(assessment=assessment, deadlines=deadlines)
    policy = observed.pool.policy.drain
    forced = policy.on_timeout == "Force" and now >= limits.force
    pods = drain(observed.pods, policy, observed.refusals, now, forced=forced)
    if not pods.must_leave:
        return _go_on_empty(observed, deadlines)
    if now >= limits.end:
        return _time_out(observed, pods, limits)
    return _wait_for_pods(observed, pods, deadlines)


def advance_paused(observed: Observation) -> Turn:
    """Leaves the node cordoned until the rollout is resumed."""
    if observed.has_layout and observed.has_driver:
        return Turn(actions=(move(observed, "Applying"),), assessment=observed.base)
    if observed.pool.suspended:
        return _leave_alone(observed)
    return _leave_alone(observed, move(observed, "Draining"))


def _limits(observed: Observation) -> _Limits:
    policy = observed.pool.policy.drain
    force = observed.change.since + policy.timeout_s
    return _Limits(force, force + policy.timeout_s if policy.on_timeout == "Force" else force)


def _cordon_again(observed: Observation) -> Turn:
    # Somebody has uncordoned it, so new pods may come as fast as the old ones leave.
    node, change = observed.node, replace(observed.change, cordoned=True)
    cordon = CordonNode(node=node.name, version=node.version, change=change)
    return Turn(actions=(cordon,), assessment=observed.base)


def _time_out(observed: Observation, pods: Drain, limits: _Limits) -> Turn:
    minutes = (limits.end - observed.change.since) / 60
    message = (
        f"after {minutes:.0f} minutes pods still run on the node: {_holders(pods)}. The node stays "
        "cordoned, and the change goes on by itself when they are gone; to put the node back into "
        f"service: slicewright rollout abort {observed.pool.name}"
    )
    failed = fail(observed, "DrainTimedOut", message)
    return Turn(actions=(failed,), assessment=_held_by_pods(observed, pods))


def _wait_for_pods(observed: Observation, pods: Drain, deadlines: tuple[float, ...]) -> Turn:
    evictions = tuple(eviction(observed.node, pod) for pod in pods.evict if observed.node.ready)
    if pods.retry_at:
        deadlines = (*deadlines, pods.retry_at)
    if pods.protected or pods.refused:
        assessment = _held_by_pods(observed, pods)
    else:
        message = f"{leaving(observed)}: {list_pods(pods.must_leave)}"
        assessment = planned(observed.base, "Draining", message)
    return Turn(actions=evictions, assessment=assessment, deadlines=deadlines)


def _go_on_empty(observed: Observation, deadlines: tuple[float, ...]) -> Turn:
    """Changes the layout or the driver of a node whose pods have left, once it is held."""
    node, base = observed.node, observed.base
    if not node.ready or node.mig_state in BUSY_STATES:
        return Turn(assessment=base, deadlines=deadlines)
    assessment = planned(base, "InChange", f"{leaving(observed)}: all are gone")
    if not node.held:
        # The pods are listed again with the taint: one may have been bound since the last look.
        return Turn(hold=True, assessment=assessment, deadlines=deadlines)
    if observed.has_driver:
        action: ChangeAction = _apply(observed)
    else:
        action = upgrade(node, replace(observed.change, since=observed.now), base)
    return Turn(actions=(action,), assessment=assessment, deadlines=deadlines)


def _apply(observed: Observation) -> ApplyLayout:
    return ApplyLayout(
        node=observed.node.name,
        version=observed.node.version,
        change=replace(observed.change, phase="Applying", since=observed.now),
        desired_state_annotation=observed.pool.desired_state_annotation,
        reports_after=observed.base.matched,
    )


def _leave_alone(observed: Observation, *actions: ChangeAction) -> Turn:
    rollout = observed.pool.suspended or "resumed"
    message = f"{leaving(observed)}: the rollout of the pool is {rollout}"
    return Turn(actions=actions, assessment=planned(observed.base, "Draining", message))


def _held_by_pods(observed: Observation, pods: Drain) -> Assessment:
    return Assessment(
        status="False",
        reason="ChangeHeldByPods",
        message=f"{leaving(observed)}{STILL_RUNNING}{_holders(pods)}",
        # A disruption budget that is used up at the moment needs no warning.
        settles=not pods.protected,
    )


def _holders(pods: Drain) -> str:
    return list_pods({**pods.refused, **pods.protected}) or list_pods(pods.must_leave)
