"""The pods of a node that leave for a change of its layout, and those that stay. Pure.

Pods leave by eviction, which respects PodDisruptionBudgets, and never otherwise. As with `kubectl
drain`, pods of DaemonSets and static pods are not evicted. Unless the policy says so, pods that no
controller would recreate and pods with data on the node's disk are not evicted either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.telemetry.plain import plain

_MOST_LISTED = 3
_LONGEST = 200


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An eviction that the API server has refused. Only this process knows it."""

    why: str
    retry_at: float
    """Time of the next try, in seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    must_leave: tuple[NodePod, ...]
    """Pods that must be gone before the layout may change."""
    evict: tuple[NodePod, ...]
    """The pods among `must_leave` to evict now."""
    protected: Mapping[str, str]
    """The pods among `must_leave` that may not be evicted -> why."""
    refused: Mapping[str, str]
    """The pods among `must_leave` whose eviction was refused -> why."""
    retry_at: float | None
    """Time when the next one may be tried again."""


def drain(
    pods: Sequence[NodePod],
    policy: DrainPolicy,
    refusals: Mapping[str, Refusal],
    now: float,
    *,
    forced: bool = False,
) -> Drain:
    """Decides which pods to evict.

    refusals: by uid.
    forced: True if the time is over, and the policy says Force.
    """
    leaving = tuple(sorted((p for p in pods if _must_go(p, policy)), key=lambda pod: pod.path))
    protected = {
        pod.path: why
        for pod in leaving
        if not pod.leaving and (why := _explain_protection(pod, policy, forced))
    }
    evictable = [pod for pod in leaving if not pod.leaving and pod.path not in protected]
    retries = [refusals[pod.uid].retry_at for pod in evictable if pod.uid in refusals]
    return Drain(
        must_leave=leaving,
        evict=tuple(
            p for p in evictable if p.uid not in refusals or refusals[p.uid].retry_at <= now
        ),
        protected=protected,
        refused={pod.path: refusals[pod.uid].why for pod in evictable if pod.uid in refusals},
        retry_at=min((at for at in retries if at > now), default=None),
    )


def list_pods(pods: Mapping[str, str] | Sequence[NodePod]) -> str:
    """Returns the first few pods. A mapping has the cause that keeps each: the first few causes are
    listed, with the first few pods of each.
    """
    if not isinstance(pods, Mapping):
        return _first_few([pod.path for pod in pods])
    held: dict[str, list[str]] = {}
    for name, why in sorted(pods.items()):
        held.setdefault(why, []).append(name)
    texts = [f"{_first_few(names)} ({why})" for why, names in held.items()]
    more = sum(len(names) for names in [*held.values()][_MOST_LISTED:])
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more else "")


def _first_few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def explain_refusal(body: Mapping[str, Any], message: str) -> str:
    """Returns why an eviction was refused, with the disruption budget if there is one."""
    budget = next((c.get("message") for c in _budget_causes(body)), None)
    # Repeated in conditions and events, which people read in terminals.
    text = budget if isinstance(budget, str) and budget else message
    return plain(text[:_LONGEST])[:_LONGEST].rstrip(".")


def is_refused_by_budget(body: Mapping[str, Any]) -> bool:
    """True if a disruption budget has refused an eviction."""
    return bool(_budget_causes(body))


def _budget_causes(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    details = body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else ()
    return [
        cause
        for cause in (causes if isinstance(causes, list) else ())
        if isinstance(cause, dict) and cause.get("reason") == "DisruptionBudget"
    ]


def _must_go(pod: NodePod, policy: DrainPolicy) -> bool:
    return pod.gpus or (policy.pods == "All" and not pod.daemon_set and not pod.static)


def _explain_protection(pod: NodePod, policy: DrainPolicy, forced: bool) -> str | None:
    """Returns why the pod is not evicted, or None if it is."""
    if policy.pods == "None":
        return "the pool's policy does not evict pods"
    if pod.static:
        return "a static pod"
    if pod.daemon_set:
        return "belongs to a DaemonSet"
    if not pod.controlled and not forced:
        return "no controller would recreate it"
    if pod.local_data and not policy.delete_local_data and not forced:
        return "has data in an emptyDir"
    return None
