"""Checks the target of a fleet's metrics, and the programs that may read them for it."""

from __future__ import annotations

from typing import Final

from slicewright.apis.names import NAMESPACE
from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.monitoring import MonitoringPlan
from slicewright.infra.plan.model.nodes import AnyCloud

_AT: Final = ("monitoring",)
_RESERVED_NAMESPACES: Final = (
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    NAMESPACE,
)
_NAME: Final = "app.kubernetes.io/name"
_PODS: Final = "prometheus"
"""The Prometheus operator's label value for its pods: prometheus-operator, pkg/prometheus."""
_COLLECTORS: Final = ("gmp-system", "collector")
"""Namespace and label of GKE's collectors: GoogleCloudPlatform/prometheus-engine,
manifests/operator.yaml.
"""


@rule("monitoring")
def monitoring_of(
    fleet: stack_file.Fleet, cloud: AnyCloud, stated: Stated
) -> Checked[MonitoringPlan | None]:
    """None without `monitoring`."""
    monitoring = fleet.monitoring
    if monitoring is None:
        return None
    if (
        isinstance(fleet, stack_file.ByoFleet)
        and fleet.cluster is None
        and stated.has(("cluster",))
    ):
        yield refuse(
            _AT,
            "needs a cluster: agents of hosts answer on 127.0.0.1 only",
            "leave it out, or add a cluster",
            in_key=True,
        )
    if isinstance(monitoring, stack_file.ManagedPrometheus):
        yield from _check_managed(fleet, cloud)
    elif isinstance(monitoring, stack_file.PrometheusStack):
        yield from _check_stack(monitoring, fleet, stated)
    yield from _check_dcgm(fleet)
    return MonitoringPlan(settings=monitoring)


@rule("monitoring-managed")
def _check_managed(fleet: stack_file.Fleet, cloud: AnyCloud) -> Checked[None]:
    if not isinstance(fleet, stack_file.GkeFleet):
        yield refuse(
            (*_AT, "prometheus"),
            f"Managed Service for Prometheus collects in GKE clusters, and this fleet's cloud is "
            f"{cloud}",
            "write stack or existing",
            "GKE docs, managed collection",
        )
        return
    stated = fleet.cluster.monitoring
    if stated is not None and not stated.managed_prometheus:
        yield refuse(
            ("cluster", "monitoring", "managed_prometheus"),
            "monitoring.prometheus is managed, whose collectors this turns off",
            "write true, or another monitoring.prometheus",
            "GKE docs, managed collection",
        )


@rule("monitoring-namespace")
def _check_stack(
    stack: stack_file.PrometheusStack, fleet: stack_file.Fleet, stated: Stated
) -> Checked[None]:
    at = (*_AT, "namespace")
    operator = fleet.gpu_operator
    if stack.namespace in _RESERVED_NAMESPACES:
        yield refuse(
            at,
            f"the stack creates Prometheus's namespace, and {stack.namespace} is already in use",
            "write another, for example monitoring",
        )
    elif operator is not None and stack.namespace == operator.namespace:
        yield refuse(
            at, "it is the GPU operator's namespace, whose pods are privileged", "write another"
        )
    elif stack.create_namespace and any(
        not isinstance(workload, stack_file.Workload)
        and workload.create_namespace
        and workload.namespace == stack.namespace
        for workload in fleet.workloads
    ):
        yield refuse(
            at,
            "a workload creates the same namespace",
            "write another, or create_namespace: false",
        )
    # An example replaces a wrong value: nothing can be concluded from it.
    if stack.create_namespace and stack.alertmanager and stated.has((*_AT, "alertmanager")):
        yield refuse(
            (*_AT, "create_namespace"),
            "alertmanager.config_secret is a Secret that exists, in a namespace that the stack "
            "would only make then",
            f"make namespace {stack.namespace} with the Secret, and write false",
        )


@rule("monitoring-dcgm")
def _check_dcgm(fleet: stack_file.Fleet) -> Checked[None]:
    """One monitor for the GPU operator's DCGM exporter: also of an operator that is adopted."""
    operator = fleet.gpu_operator
    if operator is not None and operator.dcgm_exporter.service_monitor.enabled:
        yield refuse(
            ("gpu_operator", "dcgm_exporter", "service_monitor", "enabled"),
            "monitoring already has a monitor for DCGM's exporter: every sample would be stored "
            "twice",
            "leave service_monitor out",
        )


def readers(
    stated: tuple[stack_file.MetricsSource, ...], monitoring: MonitoringPlan | None
) -> tuple[stack_file.MetricsSource, ...]:
    """Who may connect to the ports of agents and controller: also the Prometheus of the fleet."""
    if monitoring is None:
        return stated
    namespace, pods = _COLLECTORS if monitoring.namespace is None else (monitoring.namespace, _PODS)
    prometheus = stack_file.MetricsNamespace(namespace=namespace, pods={_NAME: pods})
    return stated if prometheus in stated else (*stated, prometheus)
