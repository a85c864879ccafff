"""The status of a node's condition, from its report and labels. Pure.

True requires all of this: the report's verdict is Match, the report is recent, and it is about this
Node object, its current boot and the layout that the pool wants. If mig-manager creates the
partitions, the node's labels must agree and none of its GPU operands may be paused. The node must
be Ready. If the pool wants a certain driver, the agent must have found that one. If it wants a
compute proof, the report of a held node must have it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from slicewright.apis.reasons import agent, controller
from slicewright.fleet_controller.nodes.waiting_pods import validator_fails
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report

REPORT_AGE_LIMIT_S = 900.0
"""An agent reports at least every 6 minutes, so that two lost reports in a row do no harm."""

CLOCKS_APART_S = 60.0
"""Longest time that a node's clock may be ahead of the controller's. A report is believed for that
much longer after its agent has died.
"""

OF_THE_LAYOUT = agent.OF_LAYOUT | controller.OF_LAYOUT | {"DriverNotUpgraded"}
"""Reasons that do not mean that a node with an earlier layout or driver is broken."""


def assess(
    node: Node,
    pool: Pool,
    report: Report | None,
    now: float,
    *,
    no_agent: str | None = None,
    no_operands: str | None = None,
    other_plugin: str | None = None,
) -> Assessment:
    """Returns the condition that `node` should have as a member of `pool`, rollouts aside.

    no_agent: why its agent has not reported, if the cluster tells.
    no_operands: why NVIDIA's operands do not serve it, if the cluster tells.
    other_plugin: the DaemonSet of others that registers its GPUs, if one does.
    """
    assessment = _assess_with_operands(node, pool, report, now, no_agent, no_operands)
    # The agents of pools with an engine for fractions report another plugin themselves.
    if other_plugin is None or assessment.status == "True" or pool.shares is not None:
        return assessment
    message = (
        f"{assessment.message.rstrip('.')}; DaemonSet {other_plugin} registers the node's GPUs "
        "with the kubelet, too, which keeps the plugin that registered last: delete the DaemonSet, "
        "or keep it off the pool's nodes with a nodeAffinity"
    )
    return replace(assessment, message=message)


def _assess_with_operands(
    node: Node,
    pool: Pool,
    report: Report | None,
    now: float,
    no_agent: str | None,
    no_operands: str | None,
) -> Assessment:
    assessment = _assess(node, pool, report, now, no_agent)
    if pool.driver and report is not None and report.owner_uid == node.uid:
        is_current = report.boot_id == node.boot_id and report.time > node.reports_after
        assessment = replace(
            assessment, driver=report.driver if is_current else "", reported=report.time
        )
    if assessment.status == "True" and node.held and validator_fails(no_operands):
        return replace(
            assessment,
            status="Unknown",
            reason="ValidatorFailing",
            message=f"the partitions match, but NVIDIA's validator fails: {no_operands}",
            settles=True,
        )
    if no_operands and assessment.settles:
        return replace(
            assessment, message=f"{assessment.message.rstrip('.')}; GPU operator: {no_operands}"
        )
    return assessment


def _assess(
    node: Node,
    pool: Pool,
    report: Report | None,
    now: float,
    no_agent: str | None,
) -> Assessment:
    if report is None and no_agent:
        return _unknown("NoReport", f"the node's agent has not reported: {no_agent}", settles=True)
    invalid = _invalid_report(node, pool, report, now)
    if invalid and invalid.reason == "ReportTooOld" and no_agent:
        return replace(invalid, message=f"{invalid.message}: {no_agent}")
    if invalid:
        return invalid
    assert report is not None
    expires = report.time + REPORT_AGE_LIMIT_S
    if report.verdict == "Match":
        problem = (
            _label_problem(node, pool, expires)
            or _not_ready(node, expires)
            or _other_driver(pool, report, expires)
            or _not_computed(node, pool, report, expires)
        )
        if problem is not None:
            return replace(problem, matched=report.time)
        if pool.is_to_replace(node):
            return _verified("BootedWithOtherLayout", _boot_layouts(node, pool), report.time)
        return _verified(report.reason or "PartitionsMatch", report.message, report.time)
    mismatch = report.verdict == "Mismatch"
    return Assessment(
        status="False" if mismatch else "Unknown",
        reason=report.reason or "NoReason",
        message=report.message,
        mismatch=mismatch,
        settles=report.reason in agent.SETTLING or _being_partitioned(node, pool),
        expires=expires,
    )


def _boot_layouts(node: Node, pool: Pool) -> str:
    return (
        f"the node has the partitions of boot layout {node.boot_layout}, with which it booted; the "
        f"pool's is {pool.boot_layout}"
    )


# Each pass assesses thousands of nodes the same as before, and building the result costs several
# times as much as looking it up.
@lru_cache(maxsize=4096)
def _verified(reason: str, message: str, reported: float) -> Assessment:
    return Assessment(
        status="True",
        reason=reason,
        message=message,
        expires=reported + REPORT_AGE_LIMIT_S,
        matched=reported,
    )


def _invalid_report(node: Node, pool: Pool, report: Report | None, now: float) -> Assessment | None:
    """Returns Unknown if the report does not describe the node as it is now, else None."""
    if report is None:
        return _unknown(
            "NoReport",
            "the node's agent has not reported; see the log of the node-agent pod on the node",
            settles=True,
        )
    if report.unreadable:
        return _unknown(
            "ReportUnreadable",
            f"the node's report cannot be read ({report.unreadable}); the node-agent pod on the "
            f"node writes it anew after `kubectl delete gpunodereport {node.name}`",
        )
    if report.owner_uid != node.uid:
        return _unknown(
            "ReportOfAnotherNode",
            "the report is about an earlier node with the same name",
            settles=True,
        )
    other_layout = report.layout_hash != pool.layout_hash and not pool.is_to_replace(node)
    if report.pool != pool.name or other_layout:
        return _unknown(
            "ReportOfAnotherLayout",
            f"the agent checked layout {report.layout_hash[:8] or 'none'} of pool "
            f"{report.pool or 'none'}, the pool wants {pool.layout_hash[:8]}; the node-agent pod "
            "on the node has not been replaced yet",
            settles=True,
        )
    if report.boot_id != node.boot_id:
        return _unknown(
            "ReportFromEarlierBoot",
            "the node has booted since the report; MIG partitions do not survive a reboot",
            settles=True,
        )
    if node.reports_after and report.time <= node.reports_after:
        return _unknown(
            "ReportFromEarlierLayout",
            "the report was made before the node's layout was last set",
            settles=True,
        )
    if report.time > now + CLOCKS_APART_S:
        return _unknown(
            "ReportTimeImplausible",
            f"the report's time is {stamp(report.time)}, in the future; set the node's clock",
        )
    if now >= report.time + REPORT_AGE_LIMIT_S:
        return _unknown(
            "ReportTooOld",
            f"the agent last reported at {stamp(report.time)}, more than "
            f"{REPORT_AGE_LIMIT_S / 60:.0f} minutes ago; see the log of the node-agent pod on the "
            "node, and whether the node's clock is right",
        )
    if report.verdict not in ("Match", "Mismatch", "Unknown"):
        return _unknown("ReportUnreadable", f"unknown verdict {report.verdict!r} in the report")
    return None


def _label_problem(node: Node, pool: Pool, expires: float) -> Assessment | None:
    """Returns why a matching node of mig-manager's is not ready, or None if its labels agree.

    The label `success` proves nothing, but any other state means that mig-manager is changing the
    partitions or has given up.
    """
    if not pool.mig_config:
        return None
    if node.mig_config != pool.mig_config:
        return _unknown(
            "MigConfigNotSet",
            f"nvidia.com/mig.config is {node.mig_config or 'not set'}, the pool wants "
            f"{pool.mig_config}",
            settles=True,
            expires=expires,
        )
    if node.mig_state == "failed":
        message = (
            "the partitions match, but nvidia.com/mig.config.state is failed; delete the "
            "mig-manager pod on the node to make it try again"
        )
        return Assessment(
            status="False", reason="MigManagerFailed", message=message, expires=expires
        )
    if node.mig_state != "success":
        state = node.mig_state or "absent"
        return _unknown(
            "MigManagerBusy",
            f"nvidia.com/mig.config.state is {state}",
            settles=True,
            expires=expires,
        )
    if node.paused:
        return _unknown(
            "OperandsPaused",
            f"mig-manager has paused {', '.join(node.paused)}; if this lasts, delete the "
            "mig-manager pod on the node",
            settles=True,
            expires=expires,
        )
    return None


def _not_ready(node: Node, expires: float) -> Assessment | None:
    """Returns Unknown while the kubelet is silent or not ready. The node may be rebooting."""
    if node.ready:
        return None
    return _unknown(
        "NodeNotReady",
        "the partitions matched, but the node is not Ready; see its condition Ready",
        settles=True,
        expires=expires,
    )


def _other_driver(pool: Pool, report: Report, expires: float) -> Assessment | None:
    if pool.driver in (None, report.driver):
        return None
    return _unknown(
        "DriverNotUpgraded",
        f"driver {report.driver or 'of unknown version'} is loaded, the pool wants {pool.driver}",
        settles=True,
        expires=expires,
    )


def _not_computed(node: Node, pool: Pool, report: Report, expires: float) -> Assessment | None:
    """Returns Unknown if the pool wants a compute proof and the report has none.

    A node in service needs none: a proof would disturb its pods. Without the startup taint, a node
    that has booted since its verification is about to get it.
    """
    in_service = not node.held and node.verified_boot in ("", node.boot_id)
    if not pool.computes or report.computed or in_service:
        return None
    return _unknown(
        "ComputeNotProven",
        "the partitions match, and the agent has not reported that a program has computed on each "
        "of them",
        settles=True,
        expires=expires,
    )


def _being_partitioned(node: Node, pool: Pool) -> bool:
    """True if mig-manager changes the node's partitions, or is about to."""
    if not pool.mig_config:
        return False
    if node.mig_config != pool.mig_config:
        return True
    return node.mig_state != "failed" and (node.mig_state != "success" or bool(node.paused))


@lru_cache(maxsize=4096)
def _unknown(
    reason: str, message: str, *, settles: bool = False, expires: float | None = None
) -> Assessment:
    return Assessment(
        status="Unknown", reason=reason, message=message, settles=settles, expires=expires
    )
