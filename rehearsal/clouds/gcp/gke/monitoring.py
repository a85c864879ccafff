"""Metrics and logs of simulated clusters: what GKE fills in, and what it refuses.

Sources: GKE API, MonitoringConfig and LoggingConfig; exports of clusters of 1.35 (what a new
cluster has: every package but the control plane's); GKE docs, configure metrics collection. The
collectors themselves are not simulated.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp.errors import google_error

_DEFAULT_METRICS = (
    *("SYSTEM_COMPONENTS", "STORAGE", "HPA", "POD", "DAEMONSET", "DEPLOYMENT", "STATEFULSET"),
    *("CADVISOR", "KUBELET", "DCGM", "JOBSET"),
)
_DEFAULT_LOGS = ("SYSTEM_COMPONENTS", "WORKLOADS")
_BY_PROMETHEUS = set(_DEFAULT_METRICS) - {"SYSTEM_COMPONENTS"}
OBSERVED = ("monitoringConfig", "loggingConfig")


def observed(cluster: JsonObject) -> JsonObject:
    """What a cluster has of both, from what was asked for or was there. Raises CloudError."""
    monitoring = cluster.get("monitoringConfig") or {}
    metrics = _components(cluster, "monitoring", _DEFAULT_METRICS)
    prometheus = monitoring.get("managedPrometheusConfig", {"enabled": True})
    logs = _components(cluster, "logging", _DEFAULT_LOGS)
    for kind, components in (("monitoring", metrics), ("logging", logs)):
        if components and "SYSTEM_COMPONENTS" not in components:
            raise google_error(
                400, f"SYSTEM_COMPONENTS must be enabled in {kind}_config for any other component."
            )
    need = [c for c in metrics if c in _BY_PROMETHEUS]
    if need and not prometheus.get("enabled"):
        raise google_error(
            400, f"Managed Service for Prometheus must be enabled to collect {', '.join(need)}."
        )
    return {
        "monitoringConfig": {
            **monitoring,
            "componentConfig": {"enableComponents": metrics} if metrics else {},
            # The API leaves out what is false.
            "managedPrometheusConfig": {"enabled": True} if prometheus.get("enabled") else {},
        },
        "loggingConfig": {"componentConfig": {"enableComponents": logs} if logs else {}},
        "monitoringService": "monitoring.googleapis.com/kubernetes" if metrics else "none",
        "loggingService": "logging.googleapis.com/kubernetes" if logs else "none",
    }


def check_services(requested: JsonObject) -> None:
    """Raises CloudError: hashicorp/terraform-provider-google #10805."""
    services = requested.keys() & {"monitoringService", "loggingService"}
    if services and requested.keys() & set(OBSERVED):
        raise google_error(
            400,
            "Cannot specify logging_config or monitoring_config together with logging_service or "
            "monitoring_service.",
        )


def _components(cluster: JsonObject, kind: str, default: tuple[str, ...]) -> list[str]:
    """An empty component config is none of them, and so is the service `none` of old:
    terraform-google-modules/terraform-google-kubernetes-engine #1786.
    """
    stated = (cluster.get(f"{kind}Config") or {}).get("componentConfig")
    if stated is not None:
        return list(stated.get("enableComponents") or ())
    return [] if cluster.get(f"{kind}Service") == "none" else list(default)
