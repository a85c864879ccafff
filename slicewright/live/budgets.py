"""Which evictions the disruption budgets of a cluster would refuse, one after the other. Pure.

Evictions of pods that share a budget draw from the same few that it allows at the moment, and each
counts until the pod runs again elsewhere. So they are counted together, as the API server counts
them. Source: kubernetes/kubernetes, pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fleet_controller.drain import drain, read_pod
from fleet_controller.rollout_policy import DrainPolicy
from telemetry.plain import plain

Raw = Mapping[str, Any]

_ENDED_OR_NOT_BEGUN: Final = ("Pending", "Succeeded", "Failed")
"""Phases in which no budget is asked."""


def refusals(
    drains: Iterable[tuple[Sequence[Raw], DrainPolicy]], budgets: Sequence[Raw]
) -> dict[str, str]:
    """Pods, as namespace/name, whose eviction would be refused now -> why.

    drains: the pods of each node that is drained at the same time, in the order in which they are
    asked to leave. budgets: PodDisruptionBudgets of their namespaces.
    """
    allowed = {_path(budget): _number(budget, "disruptionsAllowed") for budget in budgets}
    refused: dict[str, str] = {}
    for pods, policy in drains:
        for path, pod in _asked(pods, policy):
            if why := _refusal(pod, budgets, allowed):
                refused[path] = why
    return refused


def _asked(pods: Sequence[Raw], policy: DrainPolicy) -> list[tuple[str, Raw]]:
    """The pods that are evicted, by path, in the order of the controller."""
    raw = {read_pod(pod).path: pod for pod in pods}
    order = drain([read_pod(pod) for pod in pods], policy, {}, 0.0)
    return [(pod.path, raw[pod.path]) for pod in order.evict]


def _refusal(pod: Raw, budgets: Sequence[Raw], allowed: dict[str, int]) -> str | None:
    """Why the pod's eviction is refused; else counts it. allowed: by budget, what is left."""
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
        return f"disruption budget {names} has changed, and is not counted again yet"
    path = _path(budget)
    if allowed[path] > 0:
        allowed[path] -= 1
        return None
    return f"disruption budget {names} {_what_it_allows(budget)}"


def _what_it_allows(budget: Raw) -> str:
    allowed = _number(budget, "disruptionsAllowed")
    needs, expected = _number(budget, "desiredHealthy"), _number(budget, "expectedPods")
    if allowed:
        evictions = "1 eviction" if allowed == 1 else f"{allowed} evictions"
        needed = f" (it needs {_pods(needs)})" if needs else ""
        return f"allows {evictions} at a time{needed}: it waits until others run again elsewhere"
    if needs and needs >= expected:
        return f"never allows an eviction: it needs all of its {_pods(needs)}"
    if needs:
        healthy = _number(budget, "currentHealthy")
        return f"allows no eviction now: it needs {_pods(needs)} and has {healthy}"
    return "allows no eviction now"


def _pods(count: int) -> str:
    return f"{count} healthy pod{'' if count == 1 else 's'}"


def _lets_unready_go(budget: Raw) -> bool:
    """Whether pods that are not ready leave without being counted: always, or while the budget has
    as many healthy ones as it needs.
    """
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    needs = _number(budget, "desiredHealthy")
    return 0 < needs <= _number(budget, "currentHealthy")


def _is_ready(pod: Raw) -> bool:
    """True also where its kubelet has said nothing of it: a budget then counts it at most."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    said = [one.get("status") for one in conditions if one.get("type") == "Ready"]
    return not said or said[-1] == "True"


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
