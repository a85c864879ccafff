"""The change of one node's layout or driver, step by step. Pure.

    in service → cordoned, its pods leave → held, driver replaced → label set → verified → in
    service again

A node that needs both gets its driver first: mig-manager is away while that is replaced.

Every step is decided from the node, the note on it (`layout_change`) and its pods, no matter which
controller took the step before. A node that is verified is put back into service in any phase, so
that an undo needs no rule of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from apis.names import BUSY_STATES
from apis.reasons.troubles import MIG_MANAGER
from fleet_controller.nodes.assess import OF_THE_LAYOUT
from fleet_controller.nodes.watchdog import relabelled
from fleet_controller.objects.assessment import Assessment
from fleet_controller.objects.known_layouts import KnownLayout, target_of_undo
from fleet_controller.objects.layout_change import Change, Phase
from fleet_controller.objects.node import Node
from fleet_controller.objects.node_pods import NodePod
from fleet_controller.objects.pool import Pool
from fleet_controller.rollout.change_actions import (
    ApplyLayout,
    ChangeAction,
    CordonNode,
    EvictPod,
    FinishChange,
    NoteChange,
    UpgradeDriver,
)
from fleet_controller.rollout.drain import Drain, Refusal, drain, shown
from fleet_controller.rollout.wanted import (
    brings,
    changes,
    has_driver,
    has_layout,
    has_until_its_turn,
    is_version,
    lacks_driver,
    older_than_driver,
    outdated,
)
from fleet_controller.rollout.wanted import shown as wanted

APPLY_LIMIT_S = 1800.0
"""Longest time from the label to a verified node. mig-manager waits up to 25 minutes for pods of
operands, and a change of the MIG mode may need a reboot. Source: NVIDIA/mig-parted,
pkg/mig/reconfigure.
"""
UPGRADE_LIMIT_S = 1800.0
"""Longest time until the new driver answers. The driver container builds it first, and the operator
gives it 21 minutes for that. Source: NVIDIA/gpu-operator, assets/state-driver (startupProbe).
"""
NOT_UPGRADED = "DriverUpgradeFailed"
LASTING_S = 60.0
"""Time that a lasting finding must persist before the change has failed."""
FAILED_S = 90.0
"""Time that mig-manager must say `failed` before the change has failed.

A mig-manager that is restarted between its label `rebooting` and the reboot calls that a failure,
and takes it back after the reboot. The node is not Ready 50 s after its kubelet has ended. Source:
NVIDIA/mig-parted, pkg/mig/reconfigure; kube-controller-manager, --node-monitor-grace-period.
"""
STILL_RUNNING = "; still running: "
"""Text before the pods that hold a node, in the message of its condition."""
DRAIN_POLL_S = 3.0
"""Delay between two looks at the pods of a node that is drained."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The result of one pass for one node."""

    actions: tuple[ChangeAction, ...] = ()
    hold: bool = False
    """True if the node must have the startup taint now."""
    assessment: Assessment | None = None
    """The assessment to use instead of the node's own."""
    deadlines: tuple[float, ...] = ()
    """Times to look again without a change."""


def started(node: Node, target: str, now: float, *, driver: str = "") -> CordonNode:
    """Returns the first step."""
    change = Change(
        node_uid=node.uid,
        target=target,
        driver=driver,
        phase="Draining",
        since=now,
        started=now,
        cordoned=not node.unschedulable,
    )
    return CordonNode(node=node.name, version=node.version, change=change)


def finished(node: Node, change: Change, *, verified_at: float | None = None) -> FinishChange:
    return FinishChange(
        node=node.name,
        version=node.version,
        uncordon=change.cordoned and node.unschedulable,
        verified_at=verified_at,
    )


def go_on(
    node: Node,
    pool: Pool,
    change: Change,
    base: Assessment,
    pods: tuple[NodePod, ...] | None,
    refusals: Mapping[str, Refusal],
    now: float,
) -> Turn:
    """Returns the next step of a change that has begun.

    base: the node's assessment, rollouts aside.
    pods: all that have not ended, or None if not known.
    """
    if pool.mig_config is None and pool.driver is None:
        return Turn(actions=(finished(node, change),))
    target, driver = pool.mig_config or "", pool.driver or ""
    others = (change.target, change.driver) != (target, driver)
    no_way_back = change.phase == "Upgrading" or (change.reason == NOT_UPGRADED and others)
    if base.status == "True" and no_way_back and (others or change.driver_pod is not None):
        # Its driver may have been removed since.
        message = f"driver {base.driver} was reported before its pod was to be replaced"
        base = replace(
            base, status="Unknown", reason="DriverUpgrade", message=message, settles=True
        )
    if base.status == "True":
        message = f"{wanted(pool)} is verified; the node goes back into service"
        done = finished(node, change, verified_at=now)
        return Turn(actions=(done,), assessment=_planned(base, "InChange", message))
    has_all = has_layout(node, pool) and has_driver(pool, base)
    if others:
        # The pool wants something else by now, its old layout for example.
        again = replace(change, target=target, driver=driver, since=now, reason="", message="")
        if no_way_back:
            unseen = replace(again, driver_pod="" if driver else None)
            return Turn(
                actions=(_upgrade(node, unseen, base),), assessment=replace(base, planned=True)
            )
        phase: Phase = "Applying" if has_all else "Draining"
        noted = _note(node, replace(again, phase=phase))
        return Turn(actions=(noted,), assessment=replace(base, planned=True))
    if pool.suspended == "aborted" and _may_go_back(node, pool, change, base):
        return Turn(actions=(finished(node, change),), assessment=waits(node, pool, base))
    match change.phase:
        case "Draining" | "Paused" if has_all:
            return Turn(actions=(_moved(node, change, "Applying", now),), assessment=base)
        case "Draining" if pool.suspended:
            return _left_alone(node, pool, base, _moved(node, change, "Paused", now))
        case "Draining":
            return _drained(node, pool, change, base, pods, refusals, now)
        case "Paused" if pool.suspended:
            return _left_alone(node, pool, base)
        case "Paused":
            return _left_alone(node, pool, base, _moved(node, change, "Draining", now))
        case "Upgrading":
            return _upgraded(node, pool, change, base, pods, refusals, now)
        case "Applying" if not has_layout(node, pool) or lacks_driver(pool, base, pods):
            # Somebody has set another layout. Pods may have come, so the change starts over.
            return Turn(actions=(_moved(node, change, "Draining", now),), assessment=base)
        case "Applying":
            return _applied(node, pool, change, base, now)
        case "Failed":
            return _failed(node, pool, change, base, pods, now)


def _may_go_back(node: Node, pool: Pool, change: Change, base: Assessment) -> bool:
    """True if the node may go back into service with an earlier layout or driver.

    It may not if its driver may have been removed.
    """
    if change.phase == "Upgrading" or (
        change.phase == "Failed" and not base.driver and pool.driver
    ):
        return False
    return not has_layout(node, pool) or not has_driver(pool, base)


def waits(node: Node, pool: Pool, base: Assessment) -> Assessment:
    """Returns the assessment of a node whose turn has not come. Its own problems come first."""
    # A node that waits for another driver only is compared with the layout that it should have.
    if base.reason not in OF_THE_LAYOUT or (base.mismatch and has_layout(node, pool)):
        return base
    if relabelled(node, pool):
        return replace(
            base,
            status="Unknown",
            reason="MigConfigChanged",
            message=f"someone has changed the label nvidia.com/mig.config from {pool.mig_config}, "
            f"with which the node was verified, to {node.mig_config or 'none'}; it is set back "
            "when the node's pods have left, as in any change of its layout. Take the right to "
            "change it from others (docs/reference/integrity.md)",
            settles=False,
        )
    message = (
        f"{has_until_its_turn(node, pool, base)}; kubectl get gpupool {pool.name} shows how far "
        "that is"
    )
    return _planned(base, "WaitsForItsTurn", message)


def fail(node: Node, change: Change, reason: str, message: str, now: float) -> NoteChange:
    return _note(
        node, replace(change, phase="Failed", since=now, reason=reason, message=message[:900])
    )


def _drained(
    node: Node,
    pool: Pool,
    change: Change,
    base: Assessment,
    pods: tuple[NodePod, ...] | None,
    refusals: Mapping[str, Refusal],
    now: float,
) -> Turn:
    if not node.unschedulable:
        # Somebody has uncordoned it, so new pods may come as fast as the old ones leave.
        ours = replace(change, cordoned=True)
        return Turn(
            actions=(CordonNode(node=node.name, version=node.version, change=ours),),
            assessment=base,
        )
    policy = pool.policy.drain
    limit = change.since + policy.timeout_s
    forced = policy.on_timeout == "Force" and now >= limit
    end = limit + policy.timeout_s if policy.on_timeout == "Force" else limit
    again = tuple(at for at in (limit, end, now + DRAIN_POLL_S) if at > now)
    if pods is None:
        return Turn(
            assessment=_planned(base, "Draining", _leaving(node, pool, base)), deadlines=again
        )
    found = drain(pods, policy, refusals, now, forced=forced)
    if found.must_leave and now >= end:
        message = (
            f"after {(end - change.since) / 60:.0f} minutes pods still run on the node: "
            f"{_holders(found)}. The node stays cordoned, and the change goes on by itself when "
            "they are gone; to put the node back into service: slicewright rollout abort "
            f"{pool.name}"
        )
        failed = fail(node, change, "DrainTimedOut", message, now)
        return Turn(actions=(failed,), assessment=_held(node, pool, base, found))
    if found.must_leave:
        evictions = tuple(
            EvictPod(node=node.name, namespace=pod.namespace, pod=pod.name, uid=pod.uid)
            for pod in found.evict
            if node.ready
        )
        if found.retry_at:
            again = (*again, found.retry_at)
        waiting = found.protected or found.refused
        said = (
            _held(node, pool, base, found)
            if waiting
            else _planned(
                base, "Draining", f"{_leaving(node, pool, base)}: {shown(found.must_leave)}"
            )
        )
        return Turn(actions=evictions, assessment=said, deadlines=again)
    if not node.ready or node.mig_state in BUSY_STATES:
        return Turn(assessment=base, deadlines=again)
    said = _planned(base, "InChange", f"{_leaving(node, pool, base)}: all are gone")
    if not node.held:
        # The pods are listed again with the taint: one may have been bound since the last look.
        return Turn(hold=True, assessment=said, deadlines=again)
    if has_driver(pool, base):
        return Turn(
            actions=(_apply(node, pool, change, base, now),), assessment=said, deadlines=again
        )
    upgrade = _upgrade(node, replace(change, since=now), base)
    return Turn(actions=(upgrade,), assessment=said, deadlines=again)


def _upgrade(node: Node, change: Change, base: Assessment) -> UpgradeDriver:
    return UpgradeDriver(
        node=node.name,
        version=node.version,
        change=replace(change, phase="Upgrading"),
        reports_after=base.reported,
    )


def _apply(node: Node, pool: Pool, change: Change, base: Assessment, now: float) -> ApplyLayout:
    return ApplyLayout(
        node=node.name,
        version=node.version,
        change=replace(change, phase="Applying", since=now),
        desired_state_annotation=pool.desired_state_annotation,
        reports_after=base.matched,
    )


def _upgraded(
    node: Node,
    pool: Pool,
    change: Change,
    base: Assessment,
    pods: tuple[NodePod, ...] | None,
    refusals: Mapping[str, Refusal],
    now: float,
) -> Turn:
    """Replaces the driver.

    The driver pod is evicted, its DaemonSet makes another one, and the agent reports that pod's
    driver. Nothing else takes a driver off a node.
    """
    driver, limit = change.driver, change.since + UPGRADE_LIMIT_S
    idle = node.ready and node.mig_state not in BUSY_STATES
    stale = older_than_driver(MIG_MANAGER, driver, pods or ()) if pool.mig_config else []
    pod = brings(driver, pods or ()) if change.driver_pod is not None else None
    if pod is not None and pod.uid != change.driver_pod:
        noted = _upgrade(node, replace(change, driver_pod=pod.uid), base)
        message = f"the driver changes to {driver}: pod {pod.path} brings it"
        return Turn(actions=(noted,), assessment=_planned(base, "DriverUpgrade", message))
    loaded = has_driver(pool, base) and (change.driver_pod is None or pod is not None)
    if loaded and idle and pods is not None and not stale:
        # Its layout may still have to change, and somebody may have uncordoned it meanwhile.
        phase: Phase = "Applying" if has_layout(node, pool) else "Draining"
        moved = _moved(node, change, phase, now)
        return Turn(
            actions=(moved,), assessment=_planned(base, "InChange", f"driver {driver} is loaded")
        )
    old = outdated(driver, pods or ())
    what = _what_the_driver_waits_for(driver, old, refusals, base)
    if now >= limit:
        message = (
            f"driver {driver} is not loaded after {UPGRADE_LIMIT_S / 60:.0f} minutes: {what[:400]}."
            " The node stays cordoned. See the log of the nvidia-driver-daemonset pod on the node; "
            "repair the node, or delete its instance in the cloud; or write another "
            "`gpu_operator.driver.version` into the stack file"
        )
        return Turn(actions=(fail(node, change, NOT_UPGRADED, message, now),), assessment=base)
    said = _planned(base, "DriverUpgrade", f"the driver changes to {driver}: {what}")
    again = (limit, now + DRAIN_POLL_S)
    if pods is None or not idle:
        return Turn(assessment=said, deadlines=again)
    if loaded:
        # The partitions are gone with the earlier driver, and mig-manager recreates them at its
        # start.
        return Turn(
            actions=_evictions(node, stale, refusals, now), assessment=said, deadlines=again
        )
    if not old:
        return Turn(assessment=said, deadlines=(limit,))
    if not node.unschedulable or any(pod.gpus for pod in pods):
        # Somebody has uncordoned the node, or bound a pod that tolerates the taint.
        return Turn(actions=(_moved(node, change, "Draining", now),), assessment=said)
    if not node.held:
        return Turn(hold=True, assessment=said, deadlines=again)
    ready = [pod for pod in old if is_version(pod.next_driver, driver)]
    return Turn(actions=_evictions(node, ready, refusals, now), assessment=said, deadlines=again)


def _evictions(
    node: Node, pods: Sequence[NodePod], refusals: Mapping[str, Refusal], now: float
) -> tuple[EvictPod, ...]:
    return tuple(
        EvictPod(node=node.name, namespace=pod.namespace, pod=pod.name, uid=pod.uid)
        for pod in pods
        if not pod.leaving and (pod.uid not in refusals or refusals[pod.uid].retry_at <= now)
    )


def _what_the_driver_waits_for(
    driver: str, old: Sequence[NodePod], refusals: Mapping[str, Refusal], base: Assessment
) -> str:
    for pod in old:
        if pod.leaving:
            return f"pod {pod.path} ends"
        if not is_version(pod.next_driver, driver):
            return (
                f"the DaemonSet {pod.owner} of the GPU operator still has "
                f"{pod.next_driver or 'an image that is not known'}"
            )
        if pod.uid in refusals:
            return f"pod {pod.path} may not be evicted: {refusals[pod.uid].why}"
        return f"pod {pod.path} is evicted"
    return f"the driver pod loads it; {base.reason}: {base.message}"


def _applied(node: Node, pool: Pool, change: Change, base: Assessment, now: float) -> Turn:
    limit = change.since + APPLY_LIMIT_S
    way_out = "The node stays cordoned. Repair it, or delete its instance in the cloud"
    if _can_be_undone(node, pool):
        way_out += f"; or `slicewright rollout undo {pool.name}`"
    if node.mig_state == "failed" and node.ready:
        return _mig_manager_failed(node, change, base, now, limit, way_out)
    lasts = _since(node, base)
    if now >= limit or (lasts is not None and now >= lasts + LASTING_S):
        message = (
            f"layout {change.target} is not verified: {base.reason}: {base.message[:400]}. "
            f"{way_out}"
        )
        return Turn(actions=(fail(node, change, "ChangeFailed", message, now),), assessment=base)
    again = (limit,) if lasts is None else (limit, lasts + LASTING_S)
    return Turn(assessment=replace(base, planned=base.settles), deadlines=again)


def _can_be_undone(node: Node, pool: Pool) -> bool:
    """True if the node was in service with another layout, and the pool can go back to that.

    False if somebody has changed its label, or only its driver changes.
    """
    if pool.undone or node.verified_layout in ("", pool.mig_config):
        return False
    return isinstance(target_of_undo(pool.declared, pool.status), KnownLayout)


def _mig_manager_failed(
    node: Node, change: Change, base: Assessment, now: float, limit: float, way_out: str
) -> Turn:
    could_not = (
        f"mig-manager could not apply layout {change.target} (nvidia.com/mig.config.state is "
        "failed)"
    )
    said = _planned(base, "RebootMayFollow", f"{could_not}, perhaps just before a reboot")
    since = _said_since(node, said)
    end = min(limit, (now if since is None else since) + FAILED_S)
    if now < end:
        return Turn(assessment=said, deadlines=(end,))
    message = f"{could_not}; see the log of the mig-manager pod on the node. {way_out}"
    return Turn(actions=(fail(node, change, "ChangeFailed", message, now),), assessment=base)


def _since(node: Node, base: Assessment) -> float | None:
    """Returns since when the agent has found a lasting problem, or None if it may still pass."""
    if base.status != "False" or base.settles:
        return None
    return _said_since(node, base)


def _said_since(node: Node, said: Assessment) -> float | None:
    """Returns since when the node's condition has this status and reason, or None if it has not."""
    known = node.condition
    if known is None or (known.status, known.reason) != (said.status, said.reason):
        return None
    return known.written


def _failed(
    node: Node,
    pool: Pool,
    change: Change,
    base: Assessment,
    pods: tuple[NodePod, ...] | None,
    now: float,
) -> Turn:
    said = Assessment(
        status="False", reason=change.reason or "ChangeFailed", message=change.message
    )
    again = (now + 10 * DRAIN_POLL_S,)
    goes_on = not has_layout(node, pool) or lacks_driver(pool, base, pods)
    if change.reason == NOT_UPGRADED and not has_driver(pool, base):
        # The driver may still come late, and then the layout may have to be changed.
        goes_on = False
    if not goes_on or pods is None:
        return Turn(assessment=said, deadlines=again)
    free = not drain(pods, pool.policy.drain, {}, now).must_leave
    if free and not pool.suspended:
        return Turn(actions=(_moved(node, change, "Draining", now),), assessment=said)
    return Turn(assessment=said, deadlines=again)


def _left_alone(node: Node, pool: Pool, base: Assessment, *actions: ChangeAction) -> Turn:
    leaving = _leaving(node, pool, base)
    message = f"{leaving}: the rollout of the pool is {pool.suspended or 'resumed'}"
    return Turn(actions=actions, assessment=_planned(base, "Draining", message))


def _held(node: Node, pool: Pool, base: Assessment, found: Drain) -> Assessment:
    return Assessment(
        status="False",
        reason="ChangeHeldByPods",
        message=f"{_leaving(node, pool, base)}{STILL_RUNNING}{_holders(found)}",
        # A disruption budget that is used up at the moment needs no warning.
        settles=not found.protected,
    )


def _holders(found: Drain) -> str:
    return shown({**found.refused, **found.protected}) or shown(found.must_leave)


def _leaving(node: Node, pool: Pool, base: Assessment) -> str:
    return f"{changes(node, pool, base)} when the node's pods have left"


def _planned(base: Assessment, reason: str, message: str) -> Assessment:
    return Assessment(
        status="Unknown",
        reason=reason,
        message=message,
        settles=True,
        mismatch=base.mismatch and base.reason not in OF_THE_LAYOUT,
        expires=base.expires,
        planned=True,
    )


def _moved(node: Node, change: Change, phase: Phase, now: float) -> NoteChange:
    return _note(node, replace(change, phase=phase, since=now, reason="", message=""))


def _note(node: Node, change: Change) -> NoteChange:
    return NoteChange(node=node.name, version=node.version, change=change)
