"""The phase Upgrading: the driver pod of a drained node is replaced. Pure.

The driver pod is evicted, its DaemonSet creates another one, and the agent reports that pod's
driver. Nothing else takes a driver off a node. `node_change` has the table of all phases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slicewright.apis.names import BUSY_STATES
from slicewright.apis.reasons.troubles import MIG_MANAGER
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import Phase
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.rollout.drain import Refusal
from slicewright.fleet_controller.rollout.pool_target import (
    brings,
    is_version,
    older_than_driver,
    outdated,
)
from slicewright.fleet_controller.rollout.turn import (
    DRAIN_POLL_S,
    Observation,
    Turn,
    evict,
    fail,
    move,
    planned,
    upgrade,
)

UPGRADE_LIMIT_S = 1800.0
"""Longest time until the new driver answers. The driver container builds it first, and the operator
gives it 21 minutes for that. Source: NVIDIA/gpu-operator, assets/state-driver (startupProbe).
"""
NOT_UPGRADED = "DriverUpgradeFailed"


@dataclass(frozen=True, kw_only=True)
class _DriverPods:
    """The pods that matter for a driver, and whether it is loaded."""

    new: NodePod | None
    """The pod that brings the driver. None if reports count without knowing it."""
    outdated: Sequence[NodePod]
    """Pods that bring another driver."""
    stale_managers: Sequence[NodePod]
    """Pods of mig-manager that are older than the driver."""
    loaded: bool
    """True if the agent has found the driver, and it comes from the new pod."""


def advance_upgrading(observed: Observation) -> Turn:
    """Replaces the driver, and goes on when the new one is loaded."""
    change, driver, base = observed.change, observed.change.driver, observed.base
    pods = _driver_pods(observed)
    if pods.new is not None and pods.new.uid != change.driver_pod:
        noted = upgrade(observed.node, replace(change, driver_pod=pods.new.uid), base)
        message = f"the driver changes to {driver}: pod {pods.new.path} brings it"
        return Turn(actions=(noted,), assessment=planned(base, "DriverUpgrade", message))
    if pods.loaded and _is_idle(observed) and observed.pods is not None and not pods.stale_managers:
        # Its layout may still have to change, and somebody may have uncordoned it meanwhile.
        phase: Phase = "Applying" if observed.has_layout else "Draining"
        assessment = planned(base, "InChange", f"driver {driver} is loaded")
        return Turn(actions=(move(observed, phase),), assessment=assessment)
    cause = _explain_wait(driver, pods.outdated, observed.refusals, base)
    if observed.now >= change.since + UPGRADE_LIMIT_S:
        return _time_out(observed, cause)
    message = f"the driver changes to {driver}: {cause}"
    return _replace_pods(observed, pods, planned(base, "DriverUpgrade", message))


def _driver_pods(observed: Observation) -> _DriverPods:
    pods, change = observed.pods or (), observed.change
    must_see_pod = change.driver_pod is not None
    new = brings(change.driver, pods) if must_see_pod else None
    partitions = bool(observed.pool.mig_config)
    return _DriverPods(
        new=new,
        outdated=outdated(change.driver, pods),
        stale_managers=older_than_driver(MIG_MANAGER, change.driver, pods) if partitions else (),
        loaded=observed.has_driver and (not must_see_pod or new is not None),
    )


def _is_idle(observed: Observation) -> bool:
    return observed.node.ready and observed.node.mig_state not in BUSY_STATES


def _replace_pods(observed: Observation, pods: _DriverPods, assessment: Assessment) -> Turn:
    """Evicts the pods that stand between the node and its new driver."""
    node, now = observed.node, observed.now
    limit = observed.change.since + UPGRADE_LIMIT_S
    waiting = Turn(assessment=assessment, deadlines=(limit, now + DRAIN_POLL_S))
    if observed.pods is None or not _is_idle(observed):
        return waiting
    if pods.loaded:
        # The partitions are gone with the earlier driver, and mig-manager recreates them at its
        # start.
        return replace(waiting, actions=evict(observed, pods.stale_managers))
    if not pods.outdated:
        return Turn(assessment=assessment, deadlines=(limit,))
    if not node.unschedulable or any(pod.gpus for pod in observed.pods):
        # Somebody has uncordoned the node, or bound a pod that tolerates the taint.
        return Turn(actions=(move(observed, "Draining"),), assessment=assessment)
    if not node.held:
        return replace(waiting, hold=True)
    driver = observed.change.driver
    ready = [pod for pod in pods.outdated if is_version(pod.next_driver, driver)]
    return replace(waiting, actions=evict(observed, ready))


def _time_out(observed: Observation, cause: str) -> Turn:
    message = (
        f"driver {observed.change.driver} is not loaded after {UPGRADE_LIMIT_S / 60:.0f} minutes: "
        f"{cause[:400]}. The node stays cordoned. See the log of the nvidia-driver-daemonset pod "
        "on the node; repair the node, or delete its instance in the cloud; or write another "
        "`gpu_operator.driver.version` into the stack file"
    )
    return Turn(actions=(fail(observed, NOT_UPGRADED, message),), assessment=observed.base)


def _explain_wait(
    driver: str,
    outdated_pods: Sequence[NodePod],
    refusals: Mapping[str, Refusal],
    base: Assessment,
) -> str:
    """Returns why the driver is not loaded yet, by the first pod that brings another one."""
    if not outdated_pods:
        return f"the driver pod loads it; {base.reason}: {base.message}"
    pod = outdated_pods[0]
    if pod.leaving:
        return f"pod {pod.path} ends"
    if not is_version(pod.next_driver, driver):
        image = pod.next_driver or "an unknown image"
        return f"the DaemonSet {pod.owner} of the GPU operator still has {image}"
    if pod.uid in refusals:
        return f"pod {pod.path} may not be evicted: {refusals[pod.uid].why}"
    return f"pod {pod.path} is evicted"
