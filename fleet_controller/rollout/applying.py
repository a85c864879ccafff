"""The phase Applying: mig-manager partitions the GPUs, and the agent verifies them. Pure.

`node_change` has the table of all phases.
"""

from __future__ import annotations

from dataclasses import replace

from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.known_layouts import KnownLayout, target_of_undo
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.pool_target import lacks_driver
from slicewright.fleet_controller.rollout.turn import Observation, Turn, fail, move, planned

APPLY_LIMIT_S = 1800.0
"""Longest time from the label to a verified node. mig-manager waits up to 25 minutes for pods of
operands, and a change of the MIG mode may need a reboot. Source: NVIDIA/mig-parted,
pkg/mig/reconfigure.
"""
LASTING_S = 60.0
"""Time that a lasting finding must persist before the change has failed."""
FAILED_S = 90.0
"""Time that mig-manager must say `failed` before the change has failed.

A mig-manager that is restarted between its label `rebooting` and the reboot calls that a failure,
and takes it back after the reboot. The node is not Ready 50 s after its kubelet has ended. Source:
NVIDIA/mig-parted, pkg/mig/reconfigure; kube-controller-manager, --node-monitor-grace-period.
"""


def advance_applying(observed: Observation) -> Turn:
    """Waits until the node is verified, or the change has failed."""
    node, base, now = observed.node, observed.base, observed.now
    if not observed.has_layout or lacks_driver(observed.pool, base, observed.pods):
        # Somebody has set another layout. Pods may have come, so the change starts over.
        return Turn(actions=(move(observed, "Draining"),), assessment=base)
    limit = observed.change.since + APPLY_LIMIT_S
    if node.mig_state == "failed" and node.ready:
        return _report_mig_manager(observed, limit)
    since = _lasting_since(node, base)
    if now >= limit or (since is not None and now >= since + LASTING_S):
        message = (
            f"layout {observed.change.target} is not verified: {base.reason}: "
            f"{base.message[:400]}. {_remedy(observed)}"
        )
        return Turn(actions=(fail(observed, "ChangeFailed", message),), assessment=base)
    deadlines = (limit,) if since is None else (limit, since + LASTING_S)
    return Turn(assessment=replace(base, planned=base.settles), deadlines=deadlines)


def _report_mig_manager(observed: Observation, limit: float) -> Turn:
    """Waits for a while, and then ends the change as failed."""
    base, now = observed.base, observed.now
    failure = (
        f"mig-manager could not apply layout {observed.change.target} "
        "(nvidia.com/mig.config.state is failed)"
    )
    assessment = planned(base, "RebootMayFollow", f"{failure}, perhaps just before a reboot")
    since = _reported_since(observed.node, assessment)
    end = min(limit, (now if since is None else since) + FAILED_S)
    if now < end:
        return Turn(assessment=assessment, deadlines=(end,))
    message = f"{failure}; see the log of the mig-manager pod on the node. {_remedy(observed)}"
    return Turn(actions=(fail(observed, "ChangeFailed", message),), assessment=base)


def _remedy(observed: Observation) -> str:
    remedy = "The node stays cordoned. Repair it, or delete its instance in the cloud"
    if _can_be_undone(observed.node, observed.pool):
        return f"{remedy}; or `slicewright rollout undo {observed.pool.name}`"
    return remedy


def _can_be_undone(node: Node, pool: Pool) -> bool:
    """True if the node was in service with another layout, and the pool can go back to that.

    False if somebody has changed its label, or only its driver changes.
    """
    if pool.undone or node.verified_layout in ("", pool.mig_config):
        return False
    return isinstance(target_of_undo(pool.declared, pool.status), KnownLayout)


def _lasting_since(node: Node, base: Assessment) -> float | None:
    """Returns since when the agent has found a lasting problem, or None if it may still pass."""
    if base.status != "False" or base.settles:
        return None
    return _reported_since(node, base)


def _reported_since(node: Node, assessment: Assessment) -> float | None:
    """Returns since when the node's condition has this status and reason, or None if it has not."""
    condition = node.condition
    if condition is None:
        return None
    if (condition.status, condition.reason) != (assessment.status, assessment.reason):
        return None
    return condition.written
