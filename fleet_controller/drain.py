"""Which pods of a node leave for a change of its layout, and which stay. Pure.

Pods leave by eviction, which respects PodDisruptionBudgets, and never otherwise. As with `kubectl
drain`, pods of DaemonSets and static pods are not evicted; nor are, unless the policy says so, pods
that no controller would recreate and those with data on the node's disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet_controller.bounds import seconds, text
from fleet_controller.rollout_policy import DrainPolicy
from fleet_controller.state import requests_gpus
from telemetry.plain import plain

_MIRROR = "kubernetes.io/config.mirror"
_COMPONENT, _DRIVER = "app.kubernetes.io/component", "nvidia-driver"
_DRIVER_CONTAINER = "nvidia-driver-ctr"
"""Source of the three: NVIDIA/gpu-operator, assets/state-driver/0500_daemonset.yaml."""
_SHOWN = 3
_LONGEST = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePod:
    """A pod on a node that has not ended. A controller knows tens of thousands of them."""

    namespace: str
    name: str
    uid: str
    gpus: bool
    """Whether it requests GPUs."""
    controlled: bool = True
    """Whether a controller makes another one when it is gone."""
    daemon_set: bool = False
    static: bool = False
    """Of a file on the node: the API server has but its image."""
    local_data: bool = False
    """An emptyDir in memory is none: it is the shared memory of most GPU programs. Source:
    kubernetes/autoscaler, simulator/drainability (rules/localstorage).
    """
    leaving: bool = False
    """Being deleted."""
    app: str = ""
    """Its label `app`, by which NVIDIA's operands are known."""
    driver: str = ""
    """Of a pod that brings NVIDIA's driver: the tag of its image, 580.95.05-ubuntu22.04."""
    next_driver: str = ""
    """The tag of the image in its DaemonSet's template; empty: not known."""
    owner: str = ""
    """The DaemonSet of a pod that brings the driver."""
    created: float = 0.0
    """Seconds since the epoch."""
    node: str = ""

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An eviction that the API server has refused. Known to this process only."""

    why: str
    retry_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Drain:
    left: tuple[NodePod, ...]
    """Pods that must be gone before the layout may change."""
    evict: tuple[NodePod, ...]
    """Of these, those to ask now."""
    kept: Mapping[str, str]
    """Of these, those that may not be evicted -> why."""
    refused: Mapping[str, str]
    """Of these, those whose eviction was refused -> why."""
    retry_at: float | None
    """When the next one may be asked again."""


def drain(
    pods: Sequence[NodePod],
    policy: DrainPolicy,
    refusals: Mapping[str, Refusal],
    now: float,
    *,
    forced: bool = False,
) -> Drain:
    """refusals: by uid. forced: the time is over, and the policy says Force."""
    left = tuple(sorted((p for p in pods if _must_go(p, policy)), key=lambda pod: pod.path))
    kept = {
        pod.path: why for pod in left if not pod.leaving and (why := _stays(pod, policy, forced))
    }
    asked = [pod for pod in left if not pod.leaving and pod.path not in kept]
    again = [refusals[pod.uid].retry_at for pod in asked if pod.uid in refusals]
    return Drain(
        left=left,
        evict=tuple(p for p in asked if p.uid not in refusals or refusals[p.uid].retry_at <= now),
        kept=kept,
        refused={pod.path: refusals[pod.uid].why for pod in asked if pod.uid in refusals},
        retry_at=min((at for at in again if at > now), default=None),
    )


def shown(pods: Mapping[str, str] | Sequence[NodePod]) -> str:
    """The first few, with what keeps them."""
    if isinstance(pods, Mapping):
        texts = [f"{name} ({why})" for name, why in sorted(pods.items())]
    else:
        texts = [pod.path for pod in pods]
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def read_pod(raw: Mapping[str, Any]) -> NodePod:
    """Raises KeyError or TypeError for anything but a Pod."""
    meta, spec = raw["metadata"], raw["spec"]
    owners = meta.get("ownerReferences") or ()
    owner: Mapping[str, Any] = next((o for o in owners if o.get("controller")), {})
    labels = meta.get("labels") or {}
    in_daemon_set = owner.get("kind") == "DaemonSet"
    driver = driver_tag(spec) if in_daemon_set and labels.get(_COMPONENT) == _DRIVER else ""
    return NodePod(
        namespace=text(meta["namespace"]),
        name=text(meta["name"]),
        uid=text(meta["uid"]),
        gpus=requests_gpus(raw),
        controlled=bool(owner),
        daemon_set=in_daemon_set,
        static=_MIRROR in (meta.get("annotations") or {}),
        local_data=any(
            "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory"
            for volume in spec.get("volumes") or ()
        ),
        leaving="deletionTimestamp" in meta,
        app=text(labels.get("app")),
        driver=driver,
        owner=text(owner["name"]) if driver else "",
        created=seconds(meta.get("creationTimestamp")),
        node=text(spec.get("nodeName")),
    )


def unreadable_pod(raw: Mapping[str, Any], why: str, last: NodePod | None = None) -> NodePod:
    """A stand-in for a pod that cannot be read: one that uses GPUs and may not be evicted, so that
    no layout changes under it.

    Raises KeyError or TypeError where not even its name and node can be read.
    """
    meta = raw["metadata"]
    return NodePod(
        namespace=text(meta["namespace"]),
        name=text(meta["name"]),
        uid=text(meta["uid"]),
        gpus=True,
        controlled=False,
        node=last.node if last else text(raw["spec"].get("nodeName")),
    )


def driver_tag(pod_spec: Mapping[str, Any]) -> str:
    """The tag of the image of NVIDIA's driver in a pod that brings it; empty without one, as where
    it is named by digest.
    """
    containers = pod_spec.get("containers") or ()
    image = next((c.get("image") or "" for c in containers if c["name"] == _DRIVER_CONTAINER), "")
    path, _, tag = image.rpartition("/")[2].partition(":")
    return "" if "@" in path + tag else tag


def refusal_of(body: Mapping[str, Any], message: str) -> str:
    """Why an eviction was refused: of a disruption budget, which one."""
    said = next((c.get("message") for c in _budget_causes(body)), None)
    # Repeated in conditions and events, which people read in terminals.
    text = said if isinstance(said, str) and said else message
    return plain(text[:_LONGEST])[:_LONGEST].rstrip(".")


def of_budget(body: Mapping[str, Any]) -> bool:
    """Whether it is a disruption budget that has refused an eviction."""
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


def _stays(pod: NodePod, policy: DrainPolicy, forced: bool) -> str | None:
    """Why the pod is not evicted; None where it is."""
    if policy.pods == "None":
        return "the pool's policy evicts no pod"
    if pod.static:
        return "a static pod"
    if pod.daemon_set:
        return "of a DaemonSet"
    if not pod.controlled and not forced:
        return "no controller would recreate it"
    if pod.local_data and not policy.delete_local_data and not forced:
        return "has data in an emptyDir"
    return None
