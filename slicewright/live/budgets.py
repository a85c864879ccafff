"""Predicts which evictions the disruption budgets of a cluster would refuse. Pure.

Pods that share a budget share the evictions that it allows at the moment, and each eviction counts
until the pod runs again elsewhere. So they are counted together, as the API server counts them.
Source: kubernetes/kubernetes, pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy
from slicewright.fleet_controller.objects.node_pods import read_pod
from slicewright.fleet_controller.rollout.drain import drain
from slicewright.telemetry.plain import plain

Raw = Mapping[str, Any]

_ENDED_OR_NOT_BEGUN: Final = ("Pending", "Succeeded", "Failed")
"""Phases of pods that are evicted without a check of budgets."""


def refusals(
    drains: Iterable[tuple[Sequence[Raw], DrainPolicy]], budgets: Sequence[Raw]
) -> dict[str, str]:
    """Returns pods, as namespace/name, whose eviction would be refused now -> reason.

    `drains` has the pods of each node that is drained at the same time, in order of eviction.
    `budgets` are the PodDisruptionBudgets of their namespaces.
    """
    allowed = {_path(budget): _number(budget, "disruptionsAllowed") for budget in budgets}
    refused: dict[str, str] = {}
    for pods, policy in drains:
        for path, pod in _evicted_pods(pods, policy):
            if why := _refusal(pod, budgets, allowed):
                refused[path] = why
    return refused


def _evicted_pods(pods: Sequence[Raw], policy: DrainPolicy) -> list[tuple[str, Raw]]:
    """Returns the pods that are evicted, by path, in the order of the controller."""
    raw = {read_pod(pod).path: pod for pod in pods}
    order = drain([read_pod(pod) for pod in pods], policy, {}, 0.0)
    return [(pod.path, raw[pod.path]) for pod in order.evict]


def _refusal(pod: Raw, budgets: Sequence[Raw], allowed: dict[str, int]) -> str | None:
    """Returns why the pod's eviction is refused, else counts it in `allowed`, which holds the
    remaining evictions by budget.
    """
    over = [budget for budget in budgets if _covers(budget, pod)]
    if not over or _phase(pod) in _ENDED_OR_NOT_BEGUN:
        return None
    names = " and ".join(plain(str(budget["metadata"]["name"])) for budget in over)
    if len(over) > 1:
        return f"disruption budgets {names} select it, and Kubernetes evicts no pod with several"
    (budget,) = over
    if not _is_ready(pod) and _lets_unready_go(budget):
        return None
    if _number(budget, "observedGeneration") < int(budget["metadata"].get("generation") or 0):
        return f"disruption budget {names} has changed, and its status is not yet updated"
    path = _path(budget)
    if allowed[path] > 0:
        allowed[path] -= 1
        return None
    return f"disruption budget {names} {_allowance(budget)}"


def _allowance(budget: Raw) -> str:
    allowed = _number(budget, "disruptionsAllowed")
    needs, expected = _number(budget, "desiredHealthy"), _number(budget, "expectedPods")
    if allowed:
        evictions = "1 eviction" if allowed == 1 else f"{allowed} evictions"
        needed = f" (it needs {_pods(needs)})" if needs else ""
        return f"allows {evictions} at a time{needed}: waits until other pods run again elsewhere"
    if needs and needs >= expected:
        return f"never allows an eviction: it needs all of its {_pods(needs)}"
    if needs:
        healthy = _number(budget, "currentHealthy")
        return f"allows no eviction now: it needs {_pods(needs)} and has {healthy}"
    return "allows no eviction now"


def _pods(count: int) -> str:
    return f"{count} healthy pod{'' if count == 1 else 's'}"


def _lets_unready_go(budget: Raw) -> bool:
    """True if pods that are not ready may be evicted without being counted: always, or while the
    budget has as many healthy pods as it needs.
    """
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    needs = _number(budget, "desiredHealthy")
    return 0 < needs <= _number(budget, "currentHealthy")


def _is_ready(pod: Raw) -> bool:
    """True if the pod is ready, or has no such condition: a budget then counts it at most."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    states = [entry.get("status") for entry in conditions if entry.get("type") == "Ready"]
    return not states or states[-1] == "True"


def _phase(pod: Raw) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _covers(budget: Raw, pod: Raw) -> bool:
    meta = pod["metadata"]
    return bool(budget["metadata"].get("namespace") == meta["namespace"]) and selects(
        budget["spec"].get("selector"), meta.get("labels") or {}
    )


def _path(budget: Raw) -> str:
    return f"{budget['metadata'].get('namespace')}/{budget['metadata']['name']}"


def _number(budget: Raw, field: str) -> int:
    return int((budget.get("status") or {}).get(field) or 0)


def selects(selector: Raw | None, labels: Mapping[str, str]) -> bool:
    """Matches labels as policy/v1 does: no selector selects no pod, an empty selector all pods."""
    if selector is None:
        return False
    required: Mapping[str, str] = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in required.items()) and all(
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
