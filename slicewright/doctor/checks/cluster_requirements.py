"""The namespaces, definitions and APIs that a plan requires of an existing cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.apis.names import NAMESPACE
from slicewright.infra import stack_file
from slicewright.infra.plan import AdapterPlan, ExistingFleetPlan, KedaPlan

_MONITORS: Final = "podmonitors.monitoring.coreos.com"
_SCALED_OBJECTS: Final = "scaledobjects.keda.sh"
CERTIFICATES: Final = "certificates.cert-manager.io"
_OF_KEDA: Final = "v1beta1.external.metrics.k8s.io"
_OF_ADAPTERS: Final = "v1beta1.custom.metrics.k8s.io"
"""APIServices: only one server at a time can serve each of them."""


def wanted_namespaces(fleet: ExistingFleetPlan) -> Mapping[str, str]:
    """Namespaces that the stack creates -> the remedy if one exists already."""
    look = "check its contents (kubectl get all -n {0}), and delete it"
    remedies = {NAMESPACE: look.format(NAMESPACE)}
    if not fleet.operator.existing:
        remedies[fleet.operator.namespace] = "write another gpu_operator.namespace"
    if fleet.monitoring is not None:
        subject = fleet.monitoring.settings
        if isinstance(subject, stack_file.PrometheusStack) and subject.create_namespace:
            remedies[subject.namespace] = (
                "write monitoring: {create_namespace: false}, or another namespace"
            )
    if isinstance(fleet.pod_autoscaling, KedaPlan) and not fleet.pod_autoscaling.existing:
        remedies[fleet.pod_autoscaling.namespace] = "write another pod_autoscaling.namespace"
    for deployment in fleet.deployments:
        if deployment.workload.create_namespace and deployment.workload.namespace != "default":
            remedies[deployment.workload.namespace] = (
                "set create_namespace: false for its workloads"
            )
    return remedies


def wanted_definitions(fleet: ExistingFleetPlan) -> Mapping[str, str]:
    """CustomResourceDefinitions that must exist -> the key of the stack file that requires them."""
    keys: dict[str, str] = {}
    if fleet.monitoring is not None and isinstance(
        fleet.monitoring.settings, stack_file.ExistingPrometheus
    ):
        keys[_MONITORS] = "monitoring.prometheus: existing"
    if isinstance(fleet.pod_autoscaling, KedaPlan) and fleet.pod_autoscaling.existing:
        keys[_SCALED_OBJECTS] = "pod_autoscaling.existing: true"
    if isinstance(fleet.pod_autoscaling, AdapterPlan) and not fleet.pod_autoscaling.existing:
        keys[CERTIFICATES] = "pod_autoscaling.by: prometheus-adapter, which needs a certificate"
    return keys


def wanted_apis(fleet: ExistingFleetPlan) -> Mapping[str, str | None]:
    """APIServices of metrics -> the namespace of the server that the stack creates.

    None: the cluster must already have the server.
    """
    match fleet.pod_autoscaling:
        case KedaPlan(existing=False, namespace=namespace):
            return {_OF_KEDA: namespace}
        case AdapterPlan(existing=existing, namespace=namespace):
            return {_OF_ADAPTERS: None if existing else namespace}
        case KedaPlan() | None:
            return {}
