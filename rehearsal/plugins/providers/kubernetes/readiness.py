"""Readiness rules of the built-in kinds, with their status messages.

Source: pulumi/pulumi-kubernetes `provider/pkg/await`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes.related_objects import (
    Collection,
    RelatedObjects,
)
from slicewright.rehearsal.plugins.providers.kubernetes.waiting import ObjectRule, Rule, Verdict

DEFAULT_TIMEOUT_S: Final = 600.0


class DaemonSet(ObjectRule):
    """Every node that should run a pod runs the current one, ready and available."""

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        status = live.get("status") or {}
        generation, observed = (
            live["metadata"].get("generation", 0),
            status.get("observedGeneration", 0),
        )
        if observed < generation:
            return Verdict(
                False,
                f"DaemonSet generation is {generation}, but latest observed generation is "
                f"{observed}",
            )
        desired = status.get("desiredNumberScheduled", 0)
        for label, key in (
            ("Current", "currentNumberScheduled"),
            ("Updated", "updatedNumberScheduled"),
            ("Available", "numberAvailable"),
            ("Ready", "numberReady"),
        ):
            if status.get(key, 0) < desired:
                return Verdict(False, f"{label}: {status.get(key, 0)}/{desired}")
        return Verdict(True, f"All replicas scheduled as expected. Replicas: {desired}")


class Deployment:
    """The current ReplicaSet is ready, the rollout complete, and the volume claims are bound."""

    def needs(self, live: JsonObject) -> Mapping[str, Collection]:
        namespace = live["metadata"]["namespace"]
        labels = (live["spec"].get("selector") or {}).get("matchLabels") or {}
        needed = {
            "replicasets": Collection(path_of("apps/v1", "replicasets", namespace=namespace)),
            "pods": Collection(
                path_of("v1", "pods", namespace=namespace),
                label_selector=",".join(f"{key}={value}" for key, value in labels.items()),
            ),
        }
        if _claims(live):
            needed["claims"] = Collection(
                path_of("v1", "persistentvolumeclaims", namespace=namespace)
            )
        return needed

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        status = live.get("status") or {}
        if status.get("observedGeneration") != live["metadata"].get("generation"):
            return Verdict(False)
        revision = _revision(live)
        replicas = (live.get("spec") or {}).get("replicas", 1)
        owned = [
            item
            for item in related.items("replicasets")
            if _is_owned(item, live) and _revision(item) == revision
        ]
        ready = sum((item.get("status") or {}).get("readyReplicas", 0) for item in owned)
        if revision is None or not owned or ready < replicas:
            if wrong := pod_error(related.items("pods")):
                return Verdict(False, wrong, severity=Severity.WARNING)
            return Verdict(
                False,
                f"Waiting for app ReplicaSet to be available ({ready}/{replicas} Pods available)",
            )
        if _condition(live, "Available").get("status") != "True":
            return Verdict(False, "Waiting for the Deployment to become available")
        if (
            revision != "1"
            and _condition(live, "Progressing").get("reason") != "NewReplicaSetAvailable"
        ):
            return Verdict(False, "Waiting for the roll-out to complete")
        bound = {
            item["metadata"]["name"]
            for item in related.items("claims")
            if (item.get("status") or {}).get("phase") == "Bound"
        }
        if unbound := sorted(_claims(live) - bound):
            return Verdict(False, f"PersistentVolumeClaim {unbound[0]} is not ready")
        return Verdict(True, "Deployment initialization complete")

    def on_timeout(self, live: JsonObject) -> tuple[str, ...]:
        reasons = [_not_ready(live)]
        for condition in (live.get("status") or {}).get("conditions") or []:
            if condition.get("status") == "False" and condition.get("message"):
                reasons.append(f"[{condition.get('reason')}] {condition['message']}")
        reasons.append("Minimum number of live Pods was not attained")
        return tuple(reasons)


class Service:
    """Its endpoints are ready and unchanged for 10 s; a load balancer has its address."""

    def __init__(self, settle_s: float = 10.0) -> None:
        self._settle_s = settle_s

    def needs(self, live: JsonObject) -> Mapping[str, Collection]:
        if not self._has_endpoints(live):
            return {}
        metadata = live["metadata"]
        endpoints = path_of("v1", "endpoints", namespace=metadata["namespace"])
        return {"endpoints": Collection(endpoints, f"metadata.name={metadata['name']}")}

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        spec, status = live.get("spec") or {}, live.get("status") or {}
        if spec.get("type") == "LoadBalancer" and not (status.get("loadBalancer") or {}).get(
            "ingress"
        ):
            return Verdict(False, "Waiting for the Service to get an IP address")
        if not self._has_endpoints(live):
            return Verdict(True)
        subsets = [
            subset for item in related.items("endpoints") for subset in item.get("subsets") or []
        ]
        if any(subset.get("notReadyAddresses") for subset in subsets):
            return Verdict(False, "Waiting for Pods to become ready to receive traffic")
        settled = related.is_listed("endpoints") and related.idle_s("endpoints") >= self._settle_s
        return Verdict(
            settled,
            "" if settled else "Waiting for the Service's endpoints to settle",
            recheck=True,
        )

    def on_timeout(self, live: JsonObject) -> tuple[str, ...]:
        if (live.get("spec") or {}).get("type") == "LoadBalancer":
            hint = "Service was not allocated an IP address; does your cloud provider support this?"
        else:
            hint = (
                "Service does not target any Pods. Selected Pods may not be ready, or field "
                "'.spec.selector' may not match any."
            )
        return (_not_ready(live), hint)

    def _has_endpoints(self, live: JsonObject) -> bool:
        spec = live.get("spec") or {}
        return (
            bool(spec.get("selector"))
            and spec.get("clusterIP") != "None"
            and spec.get("type") != "ExternalName"
        )


class Job(ObjectRule):
    """Complete; a failed Job ends the wait."""

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        failed = _condition(live, "Failed")
        if failed.get("status") == "True":
            return Verdict(False, failed=(f"[{failed.get('reason')}] {failed.get('message')}",))
        if _condition(live, "Complete").get("status") == "True":
            return Verdict(True)
        active = (live.get("status") or {}).get("active", 0)
        return Verdict(False, f"Waiting for Job to complete (active pods: {active})")

    def on_timeout(self, live: JsonObject) -> tuple[str, ...]:
        return (_not_ready(live),)


class _Polled(ObjectRule):
    """Base of rules for kinds with a fixed timeout (`_FIXED_LIMITS_S`)."""

    def on_timeout(self, live: JsonObject) -> tuple[str, ...]:
        return (f"Timeout occurred polling for '{live['metadata']['name']}'",)


class PersistentVolumeClaim(_Polled):
    """Bound, or Pending if its class binds at the first consumer."""

    def needs(self, live: JsonObject) -> Mapping[str, Collection]:
        return {"classes": Collection(path_of("storage.k8s.io/v1", "storageclasses"))}

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        phase = (live.get("status") or {}).get("phase")
        if phase == "Pending":
            name = (live.get("spec") or {}).get("storageClassName")
            waits = any(
                item["metadata"]["name"] == name
                and item.get("volumeBindingMode") == "WaitForFirstConsumer"
                for item in related.items("classes")
            )
            return Verdict(waits, "" if waits else "Waiting for the claim to be bound")
        return Verdict(phase == "Bound")


class PersistentVolume(_Polled):
    """Available or Bound."""

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        return Verdict((live.get("status") or {}).get("phase") in ("Available", "Bound"))


class ResourceQuota(_Polled):
    """The quota controller has copied the limits to the status."""

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        limits = (live.get("spec") or {}).get("hard") or {}
        return Verdict(((live.get("status") or {}).get("hard") or {}) == limits)


class AnyKind(ObjectRule):
    """Current by kstatus, for kinds without a rule (PULUMI_K8S_AWAIT_ALL). One that kstatus calls
    Failed is waited for all the same. Source: pulumi/pulumi-kubernetes,
    provider/pkg/await/condition/ready.go; kubernetes-sigs/cli-utils, pkg/kstatus/status.
    """

    def judge(self, live: JsonObject, related: RelatedObjects) -> Verdict:
        metadata, status = live["metadata"], live.get("status") or {}
        if metadata.get("deletionTimestamp"):
            return Verdict(False, "Resource scheduled for deletion")
        generation, observed = metadata.get("generation"), status.get("observedGeneration")
        if observed is not None and generation is not None and observed != generation:
            return Verdict(
                False,
                f"{live.get('kind')} generation is {generation}, but latest observed generation is "
                f"{observed}",
            )
        # These two count only where they are True, Ready only where it is there.
        for name in ("Reconciling", "Stalled"):
            condition = _condition(live, name)
            if condition.get("status") == "True":
                return Verdict(False, str(condition.get("message", "")))
        ready = _condition(live, "Ready")
        if ready.get("status") in ("False", "Unknown"):
            return Verdict(False, str(ready.get("message", "")))
        return Verdict(True, "Resource is Ready" if ready else "Resource is current")


_RULES: Final[Mapping[tuple[str, str], Callable[[], Rule]]] = {
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("apps/v1", "Deployment"): Deployment,
    ("v1", "Service"): Service,
    ("batch/v1", "Job"): Job,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "ResourceQuota"): ResourceQuota,
}
_FIXED_LIMITS_S: Final = {
    "PersistentVolumeClaim": 300.0,
    "PersistentVolume": 300.0,
    "ResourceQuota": 60.0,
}
_CHECKED_ON_READ: Final = ("DaemonSet", "Deployment", "Job", "Service")


def rule_for(live: JsonObject, *, await_all: bool = False) -> Rule | None:
    """The kind's rule; None if its objects are ready as soon as they are stored."""
    make = _RULES.get((str(live.get("apiVersion")), str(live.get("kind"))))
    if make is None:
        return AnyKind() if await_all else None
    return make()


def limit_s(live: JsonObject, asked_s: float) -> float:
    """The timeout for this kind, in seconds."""
    return _FIXED_LIMITS_S.get(str(live.get("kind")), asked_s)


def is_checked_on_read(live: JsonObject) -> bool:
    """Whether a refresh checks the object's readiness."""
    return live.get("kind") in _CHECKED_ON_READ and rule_for(live) is not None


def _condition(live: JsonObject, name: str) -> JsonObject:
    conditions = (live.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == name), {})


def _revision(item: JsonObject) -> str | None:
    revision = (item["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision")
    return str(revision) if revision is not None else None


def pod_error(pods: Iterable[JsonObject]) -> str:
    """What the first pod's containers wait for; empty: nothing out of the ordinary.

    Source: pulumi/cloud-ready-checks, pkg/kubernetes/pod, containersReady.
    """
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        waiting = [
            (container.get("state") or {}).get("waiting")
            for container in status.get("containerStatuses") or ()
            if not container.get("ready")
        ]
        errors = [
            f"[{state['reason']}] {state.get('message', '')}"
            for state in waiting
            if state and state.get("reason") != "ContainerCreating"
        ]
        if errors:
            ready = _condition(pod, "ContainersReady").get("message", "")
            message = "\n".join(errors)
            return f"[Pod {metadata['namespace']}/{metadata['name']}]: {ready}{message}"
    return ""


def _is_owned(item: JsonObject, owner: JsonObject) -> bool:
    return any(
        reference.get("uid") == owner["metadata"]["uid"]
        for reference in item["metadata"].get("ownerReferences") or []
    )


def _claims(live: JsonObject) -> set[str]:
    volumes = live["spec"]["template"].get("spec", {}).get("volumes") or []
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if volume.get("persistentVolumeClaim")
    }


def _not_ready(live: JsonObject) -> str:
    return f"'{live['metadata']['name']}' timed out waiting to be Ready"
