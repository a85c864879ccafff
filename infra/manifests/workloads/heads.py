"""Names, labels and annotations of the objects of a workload."""

from __future__ import annotations

from typing import Final

from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import DeploymentPlan

WORKLOAD_LABEL: Final = "slicewright.io/workload"
"""The label of a workload's pods. Service, disruption budget and spread select by it."""


def head(plan: DeploymentPlan, version: str, kind: str, *, suffix: str = "") -> JsonObject:
    """apiVersion, kind and metadata of an object in the workload's namespace."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": f"{plan.name}{suffix}",
            "namespace": plan.namespace,
            "labels": labels(plan),
        },
    }


def labels(plan: DeploymentPlan) -> JsonObject:
    return {
        "app.kubernetes.io/name": plan.workload.kind,
        "app.kubernetes.io/instance": plan.name,
        **selector(plan),
    }


def selector(plan: DeploymentPlan) -> JsonObject:
    return {WORKLOAD_LABEL: plan.name}


def not_awaited(manifest: JsonObject) -> JsonObject:
    """The same object, with the annotation that keeps the provider from awaiting its readiness."""
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations", {}) | {"pulumi.com/skipAwait": "true"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
