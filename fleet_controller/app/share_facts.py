"""The facts about fractions of GPUs that a decision needs, from the pods in memory."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.fleet_controller.cluster.bound_pods import BoundPods
from slicewright.fleet_controller.decision.facts import ShareFacts
from slicewright.fleet_controller.decision.shares import starts_by_namespace


def share_facts(bound: BoundPods, nodes: Sequence[str]) -> ShareFacts:
    """nodes: those of pools whose GPUs an engine shares."""
    return ShareFacts(
        pods={name: bound.pods_on(name) for name in nodes},
        schedulers=starts_by_namespace(bound.schedulers()),
    )
