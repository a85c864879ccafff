"""Which pods hold the drain of a node, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet_controller.drain import NodePod, drain, read_pod
from fleet_controller.rollout_policy import DrainPolicy
from slicewright.live.budgets import refusals, selects
from telemetry.plain import plain

__all__ = ["Blocker", "blockers", "selects"]

Raw = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """A pod that must leave a node before its layout may change."""

    pod: str
    """namespace/name."""
    why: str
    """What keeps it."""
    leaves: bool
    """Whether it goes by itself: it is ending, or will be evicted."""


def blockers(
    pods: Sequence[Raw],
    budgets: Sequence[Raw],
    policy: DrainPolicy,
    *,
    refused: Mapping[str, str] | None = None,
    stands: str = "",
) -> tuple[Blocker, ...]:
    """Pods that must leave; first those that must not be evicted.

    pods: Pods of the node, those that have ended aside. budgets: PodDisruptionBudgets. refused:
    what `budgets.refusals` says of all nodes that are drained with this one; None where none is.
    stands: why no pod is asked to leave at the moment; empty where they are.
    """
    if refused is None:
        refused = refusals([(pods, policy)], budgets)
    now = drain(list(map(read_pod, pods)), policy, {}, 0.0)
    each = [
        _blocker(pod, now.kept.get(pod.path) or stands or refused.get(pod.path)) for pod in now.left
    ]
    return tuple(sorted(each, key=lambda one: (one.leaves, one.pod)))


def _blocker(pod: NodePod, kept: str | None) -> Blocker:
    path = plain(pod.path)
    if pod.leaving:
        return Blocker(pod=path, why="is ending", leaves=True)
    if kept is not None:
        return Blocker(pod=path, why=kept, leaves=False)
    return Blocker(pod=path, why="will be evicted", leaves=True)
