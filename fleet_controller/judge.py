"""What a node's report is worth: the one place where a report becomes True, False or Unknown. Pure.

True takes everything at once: the agent's verdict is Match, it is fresh, it is about this very Node
and this boot of it, about the layout that the pool wants, and where mig-manager partitions, the
node's labels agree and nothing is paused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet_controller.state import Node, Pool, Report, stamp

REPORT_AGE_LIMIT_S = 900.0
"""An agent reports at least every 6 minutes; two may be lost."""

AGENT_SETTLING = frozenset(
    {
        "MigModePending",
        "NotPartitioned",
        "LayoutIncomplete",
        "ResourcesNotAdvertised",
        "WrongResources",
        "UnexpectedResources",
        "ResourcesWithheld",
        "DriverLibraryMissing",
        "DriverNotLoaded",
        "PartitioningUnderWay",
        "NodeUnreadable",
    }
)
"""Reasons of the agent that a node still being set up passes through
(node_agent/verdict/reasons.py; a test compares the two).
"""

BUSY_STATES = ("pending", "rebooting")


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A node's condition as it should stand."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    """The same facts always give the same words, so that nothing is written when nothing
    changed.
    """
    settles: bool = False
    """May pass by itself while the node is being set up."""
    expires: float | None = None
    """When this judgement ends by the clock alone."""


def judge(
    node: Node,
    pool: Pool,
    report: Report | None,
    now: float,
    *,
    holders: tuple[str, ...] | None = None,
) -> Judgement:
    """What is known of `node` as a member of `pool`.

    holders: pods that keep the node's GPUs and therefore hold up a change of its layout; None or
    empty where nothing is held up.
    """
    if pool.mig_config and holders and node.mig_config != pool.mig_config:
        return Judgement(
            status="False", reason="ChangeHeldByPods", message=_held(node, pool, holders)
        )
    doubt = _doubt(node, pool, report, now)
    if doubt:
        return doubt
    assert report is not None
    expires = report.time + REPORT_AGE_LIMIT_S
    if report.verdict == "Match":
        return _labels(node, pool, expires) or Judgement(
            status="True",
            reason=report.reason or "PartitionsMatch",
            message=report.message,
            expires=expires,
        )
    return Judgement(
        status="False" if report.verdict == "Mismatch" else "Unknown",
        reason=report.reason or "NoReason",
        message=report.message,
        settles=report.reason in AGENT_SETTLING or _mig_manager_is_at_it(node, pool),
        expires=expires,
    )


def _doubt(node: Node, pool: Pool, report: Report | None, now: float) -> Judgement | None:
    """Why the report says nothing about the node as it is now."""
    if report is None:
        return _unknown(
            "NoReport",
            "the node's agent has not reported; see the node-agent pod on it",
            settles=True,
        )
    if report.owner_uid != node.uid:
        return _unknown(
            "ReportOfAnotherNode", "the report is of an earlier node of the same name", settles=True
        )
    if report.pool != pool.name or report.layout_hash != pool.layout_hash:
        return _unknown(
            "ReportOfAnotherLayout",
            f"the agent compared with layout {report.layout_hash[:8] or 'none'} of pool "
            f"{report.pool or 'none'}, "
            f"the pool wants {pool.layout_hash[:8]}; its agent pod has not been replaced yet",
            settles=True,
        )
    if report.boot_id != node.boot_id:
        return _unknown(
            "ReportFromEarlierBoot",
            "the node has booted since the report, and partitions do not survive that",
            settles=True,
        )
    if report.time > now + REPORT_AGE_LIMIT_S:
        return _unknown(
            "ReportTimeImplausible",
            f"the report is of {stamp(report.time)}; the clock of the node is wrong",
        )
    if now >= report.time + REPORT_AGE_LIMIT_S:
        return _unknown(
            "ReportTooOld",
            f"the agent last reported at {stamp(report.time)}, more than "
            f"{REPORT_AGE_LIMIT_S / 60:.0f} minutes ago; "
            "see the node-agent pod on the node",
        )
    if report.verdict not in ("Match", "Mismatch", "Unknown"):
        return _unknown("ReportUnreadable", f"the report has the verdict {report.verdict!r}")
    return None


def _labels(node: Node, pool: Pool, expires: float) -> Judgement | None:
    """What speaks against a matching node whose partitions mig-manager makes. A state label alone
    proves nothing, but one that is not `success` says that somebody is at work or gave up.
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
            "the GPUs match, but mig-manager says failed; delete its pod on the node, which "
            "makes it try again"
        )
        return Judgement(
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
            f"mig-manager has paused {', '.join(node.paused)}; if it stays so, delete its "
            "pod on the node",
            settles=True,
            expires=expires,
        )
    return None


def _mig_manager_is_at_it(node: Node, pool: Pool) -> bool:
    return bool(pool.mig_config) and (
        node.mig_config != pool.mig_config or (node.mig_state != "failed" and _unfinished(node))
    )


def _unfinished(node: Node) -> bool:
    return node.mig_state != "success" or bool(node.paused)


def _held(node: Node, pool: Pool, holders: tuple[str, ...]) -> str:
    named = ", ".join(holders[:3]) + (f" and {len(holders) - 3} more" if len(holders) > 3 else "")
    return (
        f"the layout changes from {node.mig_config or 'none'} to {pool.mig_config} when no "
        "pod uses the node's GPUs any more; "
        f"now there {'is' if len(holders) == 1 else 'are'} {named}"
    )


def _unknown(
    reason: str, message: str, *, settles: bool = False, expires: float | None = None
) -> Judgement:
    return Judgement(
        status="Unknown", reason=reason, message=message, settles=settles, expires=expires
    )
