"""Which pods hold the drain of a node, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet_controller.drain import NodePod, drain, read_pod
from fleet_controller.rollout_policy import DrainPolicy
from telemetry.plain import plain

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
    pods: Sequence[Raw], budgets: Sequence[Raw], policy: DrainPolicy
) -> tuple[Blocker, ...]:
    """Pods that must leave; first those that must not be evicted.

    pods: Pods of the node, those that have ended aside. budgets: PodDisruptionBudgets.
    """
    by_path = {one.path: (one, pod) for pod in pods for one in (read_pod(pod),)}
    found = drain([one for one, _ in by_path.values()], policy, {}, 0.0)
    each = [
        _blocker(one, by_path[one.path][1], budgets, found.kept.get(one.path)) for one in found.left
    ]
    return tuple(sorted(each, key=lambda one: (one.leaves, one.pod)))


def _blocker(one: NodePod, pod: Raw, budgets: Sequence[Raw], kept: str | None) -> Blocker:
    path = plain(one.path)
    if one.leaving:
        return Blocker(pod=path, why="is ending", leaves=True)
    if kept is not None:
        return Blocker(pod=path, why=kept, leaves=False)
    if (budget := _spent(pod, budgets)) is not None:
        return Blocker(
            pod=path,
            why=f"disruption budget {plain(budget)} allows no eviction now",
            leaves=False,
        )
    return Blocker(pod=path, why="will be evicted", leaves=True)


def _spent(pod: Raw, budgets: Sequence[Raw]) -> str | None:
    """The first budget over the pod that allows no disruption."""
    meta = pod["metadata"]
    for budget in budgets:
        allowed = int((budget.get("status") or {}).get("disruptionsAllowed") or 0)
        if (
            allowed == 0
            and budget["metadata"].get("namespace") == meta["namespace"]
            and selects(budget["spec"].get("selector"), meta.get("labels") or {})
        ):
            return str(budget["metadata"]["name"])
    return None


def selects(selector: Raw | None, labels: Mapping[str, str]) -> bool:
    """A label selector as policy/v1 reads it: none selects no pod, an empty one all."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(rule, labels) for rule in selector.get("matchExpressions") or ()
    )


def _holds(rule: Raw, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(rule["key"]), rule.get("values") or ()
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
