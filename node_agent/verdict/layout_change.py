"""The verdict on a node that keeps its earlier layout until its turn in a rollout. Pure.

From `pulumi up` on, the agent compares the node with the new layout of the pool. A node whose pods
still have to leave differs from that as expected, and nothing on it needs a repair.
"""

from __future__ import annotations

import json
from typing import Final

from slicewright.apis.desired_state import Desired
from slicewright.apis.reasons.agent import OF_LAYOUT
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.judge import replace_reason

PENDING: Final = "LayoutChangePending"
_BEFORE_THE_LABEL: Final = ("Draining", "Paused")
"""Phases of a change while the node still has its earlier layout. Later phases belong to the new
layout, and a difference is then a real one.
"""


def or_pending(verdict: Verdict, desired: Desired, node: NodeState, mig_config: str) -> Verdict:
    """Returns the verdict, or LayoutChangePending if the node only waits for the change of its
    layout.

    mig_config: the value of the label nvidia.com/mig.config that the pool wants, or empty if
    unknown.
    """
    if verdict.reason not in OF_LAYOUT or desired.partitioner != "mig-manager":
        return verdict
    if _phase(node) in _BEFORE_THE_LABEL or _waits_for_its_turn(node, mig_config):
        return replace_reason(verdict, PENDING, desired)
    return verdict


def _waits_for_its_turn(node: NodeState, mig_config: str) -> bool:
    """True if the node is as last verified, and the pool wants another layout.

    A node that was never verified is being set up, and its own findings show the progress.
    """
    return (
        bool(mig_config)
        and not node.assigned
        and not _phase(node)
        and node.mig_config != mig_config
        and node.mig_config == node.verified_layout != ""
    )


def _phase(node: NodeState) -> str:
    """Returns the phase of the change that the controller has noted on this Node, or empty."""
    try:
        note = json.loads(node.layout_change)
        return str(note["phase"]) if note["nodeUid"] == node.uid else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
