"""Which pods hold the drain of a node, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy
from slicewright.fleet_controller.objects.node_pods import NodePod, read_pod
from slicewright.fleet_controller.rollout.drain import drain
from slicewright.live.budgets import refusals, selects
from slicewright.telemetry.plain import plain

__all__ = ["Blocker", "blockers", "selects"]

Raw = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """A pod that must leave a node before its layout may change."""

    pod: str
    """namespace/name."""
    why: str
    """The reason why the pod still runs."""
    leaves: bool
    """True if the pod is ending or will be evicted."""


def blockers(
    pods: Sequence[Raw],
    budgets: Sequence[Raw],
    policy: DrainPolicy,
    *,
    refused: Mapping[str, str] | None = None,
    stands: str = "",
) -> tuple[Blocker, ...]:
    """Returns the pods that must leave, pods that must not be evicted first.

    `pods` are the node's pods that have not ended, `budgets` are PodDisruptionBudgets, and
    `refused` is the result of `budgets.refusals` for all nodes that are drained together, or None
    for a single node. `stands` is the reason why no pod is evicted at the moment, else empty.
    """
    if refused is None:
        refused = refusals([(pods, policy)], budgets)
    now = drain(list(map(read_pod, pods)), policy, {}, 0.0)
    each = [
        _blocker(pod, now.protected.get(pod.path) or stands or refused.get(pod.path))
        for pod in now.must_leave
    ]
    return tuple(sorted(each, key=lambda blocker: (blocker.leaves, blocker.pod)))


def _blocker(pod: NodePod, obstacle: str | None) -> Blocker:
    path = plain(pod.path)
    if pod.leaving:
        return Blocker(pod=path, why="is ending", leaves=True)
    if obstacle is not None:
        return Blocker(pod=path, why=obstacle, leaves=False)
    return Blocker(pod=path, why="will be evicted", leaves=True)
