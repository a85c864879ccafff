"""Metrics and logs of a GKE cluster, by GKE's rules for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, listed, refuse, rule
from slicewright.infra.plan.model.fleets import GkeFleetPlan

_SYSTEM: Final = "SYSTEM_COMPONENTS"
_BY_PROMETHEUS: Final = (
    *("STORAGE", "HPA", "POD", "DAEMONSET", "DEPLOYMENT", "STATEFULSET", "JOBSET"),
    *("CADVISOR", "KUBELET", "DCGM"),
)
"""Packages that managed collection gathers. Sources: GKE docs, collect and view kube state metrics,
cAdvisor/Kubelet metrics and DCGM metrics: requirements.
"""
_METRICS: Final = "GKE docs, configure metrics collection"
_LOGS: Final = "GKE docs, about GKE logs"


@rule("gke-monitoring")
def plan_monitoring(
    monitoring: stack_file.GkeMonitoring | None,
) -> Checked[stack_file.GkeMonitoring | None]:
    """Its components in the API's order: another order in the stack file changes nothing."""
    if monitoring is None:
        return None
    at = ("cluster", "monitoring")
    yield from _check_components(monitoring.components, (*at, "components"), "metrics", _METRICS)
    need = [c for c in monitoring.components if c in _BY_PROMETHEUS]
    if need and not monitoring.managed_prometheus:
        yield refuse(
            (*at, "managed_prometheus"),
            f"Managed Service for Prometheus collects the metrics of {listed(need)}",
            "write true, or leave those components out",
            _METRICS,
        )
    return monitoring.model_copy(
        update={
            "components": _in_order(monitoring.components, get_args(stack_file.MetricsComponent))
        }
    )


def plan_logging(logging: stack_file.GkeLogging | None) -> Checked[stack_file.GkeLogging | None]:
    """Its components in the API's order."""
    if logging is None:
        return None
    at = ("cluster", "logging", "components")
    yield from _check_components(logging.components, at, "logs", _LOGS)
    return logging.model_copy(
        update={"components": _in_order(logging.components, get_args(stack_file.LogsComponent))}
    )


def monitoring_notes(fleet: GkeFleetPlan) -> list[str]:
    """Notes on components that cost money, and on nodes that may have two exporters of DCGM. These
    cannot share the profiling hardware: NVIDIA/dcgm-exporter #7, NVIDIA/DCGM #56.
    """
    cluster, notes = fleet.cluster, []
    monitoring = cluster.monitoring
    billed = [c for c in monitoring.components if c != _SYSTEM] if monitoring is not None else []
    if billed:
        # Google Cloud Observability pricing: metrics of GKE's system components are free.
        notes.append(
            f"cluster {cluster.name}: Cloud Monitoring bills by the sample for the metrics of "
            f"{listed(billed)}"
        )
    exported = fleet.operator is not None and fleet.operator.dcgm_exporter.enabled
    if exported and fleet.operated and not cluster.existing and _has_dcgm(monitoring):
        why = "" if monitoring is not None else ", as it is in new clusters by default"
        notes.append(
            f"cluster {cluster.name}: GKE's own exporter of DCGM is on{why}; on nodes of "
            f"{listed([p.name for p in fleet.operated])} the GPU operator's exporter runs as well: "
            "only one of the two gets the counters of profiling, and mig-manager stops only the "
            "operator's while it changes a layout; write cluster.monitoring without DCGM"
        )
    return notes


def _has_dcgm(monitoring: stack_file.GkeMonitoring | None) -> bool:
    """Clusters made since 1.32.1-gke.1357000 have it by default too: GKE docs, DCGM metrics."""
    return monitoring is None or "DCGM" in monitoring.components


@rule("gke-monitoring-components")
def _check_components(
    components: Sequence[str], at: stack_file.Path, signals: str, source: str
) -> Checked[None]:
    for i, component in enumerate(components):
        if component in components[:i]:
            yield refuse((*at, i), f"{component} is listed twice", "leave one out", source)
    if components and _SYSTEM not in components:
        yield refuse(
            at,
            f"GKE sends {signals} of others only together with those of {_SYSTEM}",
            f"add {_SYSTEM}, or write [] to send none",
            source,
        )


def _in_order(components: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    return tuple(c for c in order if c in components)
