"""The startup taint of one node: when it is added, and when it is removed. Pure."""

from __future__ import annotations

from slicewright.apis.names import BUSY_STATES, STARTUP_TAINT_KEY
from slicewright.fleet_controller.decision.actions import (
    AddStartupTaint,
    NoteGpuPods,
    RemoveStartupTaint,
)
from slicewright.fleet_controller.nodes.watchdog import relabelled
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.known_layouts import verified_layouts
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report


def hold_reason(
    pool: Pool, report: Report | None, node: Node, assessment: Assessment
) -> str | None:
    """Returns why no new pods may come to the node, or None if they may.

    With a reason, the node's assessment is never True, so it never releases a node that is held
    here.
    """
    if not node.ready:
        return "not Ready"
    if assessment.status != "True" and node.boot_id != _last_verified_boot(node, report):
        return "booted since it was verified"
    if assessment.mismatch:
        return assessment.reason
    if pool.mig_config and node.mig_state in BUSY_STATES:
        return "mig-manager changes its partitions"
    return None


def add_taint(node: Node, why: str, *, gpu_pods: int = 0) -> AddStartupTaint:
    return AddStartupTaint(
        node=node.name,
        version=node.version,
        has_taints=bool(node.taint_keys),
        why=why,
        gpu_pods=gpu_pods,
        has_annotations=node.has_annotations,
    )


def note_gpu_pods(node: Node, pool: Pool, gpu_pods: int) -> tuple[NoteGpuPods, ...]:
    """Returns the action that corrects the note on pods with GPUs. Only a held node has one."""
    expected = gpu_pods if node.held and pool.computes else 0
    if node.gpu_pods == (str(expected) if expected else ""):
        return ()
    return (NoteGpuPods(node=node.name, gpu_pods=expected),)


def remove_taints(node: Node, pool: Pool) -> tuple[RemoveStartupTaint, ...]:
    """Returns the actions that release a node."""
    positions = [i for i, key in enumerate(node.taint_keys) if key == STARTUP_TAINT_KEY]
    layout = None if pool.mig_config is None else node.mig_config
    # From the back, so that a removal does not move the next one.
    return tuple(
        RemoveStartupTaint(node=node.name, position=i, boot_id=node.boot_id, layout=layout)
        for i in reversed(positions)
    )


def loses_verified_layout(node: Node, pool: Pool) -> bool:
    """True if the record of the node's layout is to be forgotten, as the node has to be held.

    False if the node is only away, because it is the same when it is back. Also False if the record
    shows that somebody has changed the label.
    """
    return bool(node.verified_layout) and node.ready and not relabelled(node, pool)


def returns_before_its_turn(
    node: Node, pool: Pool, report: Report | None, base: Assessment
) -> bool:
    """True if a held node that waits in the rollout queue may serve pods until its turn.

    base: the node's own assessment.
    """
    knows_driver = not pool.driver or bool(base.driver)
    if _has_its_verified_layout(node, pool, report) and knows_driver:
        return True
    return _lacks_only_its_driver(node, base)


def _has_its_verified_layout(node: Node, pool: Pool, report: Report | None) -> bool:
    """True if a node waiting in the rollout queue still has the layout it was last verified with.

    Its agent cannot verify the old layout any more. Such a node was held because it was not Ready
    for a while. Without this check it would stay held until its turn, however long the rollout is
    paused.

    The node's annotations alone are not enough. Its agent must have reported in this boot. If the
    agent has found a mismatch, as it does when it compares the node with the new layout, the pool
    must have been verified with the layout that the node has.
    """
    if report is None or (report.owner_uid, report.boot_id) != (node.uid, node.boot_id):
        return False
    if report.verdict == "Mismatch" and node.mig_config not in _verified_names(pool):
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


def _verified_names(pool: Pool) -> frozenset[str]:
    """Returns the pool's verified layouts, by its status, which only the controller writes."""
    return frozenset(layout.mig_config for layout in verified_layouts(pool.status))


def _lacks_only_its_driver(node: Node, base: Assessment) -> bool:
    """True if a node waiting in the rollout queue lacks only its driver: its agent verifies the
    rest, in the same boot that was verified before.
    """
    return (
        node.held
        and node.quarantine_at is None
        and node.verified_boot == node.boot_id
        and base.reason == "DriverNotUpgraded"
    )


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
