"""A node of a pool, with the time since its state last changed."""

from __future__ import annotations

from typing import NamedTuple

from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.rollout.rollout import fresh

GRACE_S = 300.0
"""Time that a node may take to reach its desired state before a Warning Event reports it."""
SET_UP_LIMIT_S = 1800.0
"""Time that a node may take if it has never been in service. Installing a driver, rebooting for MIG
and making the partitions takes up to a quarter of an hour.
"""
DAMPING_S = 10.0
"""Time that a finding must last before there is an event: a report may come from mid-change."""
_PASSES_WITH_PODS = frozenset({"ChangeHeldByPods"})
"""Reasons that end when pods leave the node."""


class Member(NamedTuple):
    """A node of a pool. Each pass makes thousands, and a dataclass takes twice as long."""

    node: Node
    assessment: Assessment
    settling: bool
    """True if it is not verified, but still within its grace period."""
    changed: float
    """Time when its condition's status last changed."""
    warns: bool
    """True if there is to be an event about it."""
    stuck: bool
    """True if it has been wrong for DAMPING_S, for a reason that does not pass without help."""
    joining: bool
    """True if it was never in service, and still has time to be set up."""
    deadlines: tuple[float, ...] = ()
    """Times when these facts may change without any event."""


def member_of(node: Node, assessment: Assessment, now: float) -> Member:
    condition = node.condition
    changed = condition.changed if condition and condition.status == assessment.status else now
    settling = warns = joining = False
    deadlines: tuple[float, ...] = (assessment.expires,) if assessment.expires else ()
    if assessment.planned:
        settling = True
    elif assessment.status != "True":
        until = _until(node, assessment, now)
        warns = now >= until
        settling = assessment.settles and not warns
        deadlines += (until,)
        if fresh(node):
            limit = node.created + SET_UP_LIMIT_S
            joining = settling or (assessment.settles and now < limit)
            deadlines += (limit,)
    lasting = assessment.status == "False" and not assessment.settles
    return Member(
        node=node,
        assessment=assessment,
        settling=settling,
        changed=changed,
        warns=warns,
        stuck=warns and lasting and assessment.reason not in _PASSES_WITH_PODS,
        joining=joining,
        deadlines=deadlines,
    )


def _until(node: Node, assessment: Assessment, now: float) -> float:
    """Returns when a node that is not verified is to be warned about."""
    condition = node.condition
    if assessment.settles:
        # The grace period starts with the node, and again when its status changes.
        begin = max(node.created, condition.changed) if condition else node.created
        return begin + GRACE_S
    since = condition.written if condition and says(condition, assessment) else now
    return since + DAMPING_S


def says(condition: Condition, assessment: Assessment) -> bool:
    """True if a condition in the cluster is as it should be."""
    return (condition.status, condition.reason, condition.message) == (
        assessment.status,
        assessment.reason,
        assessment.message,
    )
