"""Notes on a fleet's Prometheus, to read before `pulumi up`."""

from __future__ import annotations

from slicewright.infra.plan.model.fleets import ExistingFleetPlan, FleetPlan, GkeFleetPlan
from slicewright.infra.stack_file import (
    ContainerWorkload,
    ExistingPrometheus,
    ManagedPrometheus,
    PrometheusStack,
)


def monitoring_notes(fleet: FleetPlan) -> list[str]:
    """One sentence each. Empty without monitoring."""
    if fleet.monitoring is None:
        return []
    settings, at, notes = fleet.monitoring.settings, "monitoring:", []
    if isinstance(settings, PrometheusStack):
        if settings.storage is None:
            notes.append(
                f"{at} without storage, Prometheus loses its data with its pod; write storage: "
                "{size: 20Gi}"
            )
        if settings.alerts and settings.alertmanager is None:
            notes.append(
                f"{at} alerts are seen in Prometheus only and notify no one; write alertmanager: "
                "{config_secret: …}"
            )
        if settings.dashboards:
            notes.append(
                f"{at} dashboards are ConfigMaps for a Grafana that you run; without one write "
                "dashboards: false"
            )
    if isinstance(settings, ExistingPrometheus) and _makes_its_cluster(fleet):
        notes.append(
            f"{at} a new cluster has no Prometheus: install it, with its operator, before you "
            "write prometheus: existing, or write stack"
        )
    if isinstance(settings, ManagedPrometheus):
        # GKE docs, managed collection; Google Cloud Observability pricing.
        notes.append(
            f"{at} Google bills per sample, and each series sends one every "
            f"{fleet.monitoring.interval_s} seconds"
        )
    if isinstance(fleet, GkeFleetPlan) and (
        native := [pool.name for pool in fleet.pools if not pool.operated]
    ):
        notes.append(
            f"{at} DCGM's exporter of pools that GKE partitions, {', '.join(native)}, is GKE's "
            "own: its metrics are in Cloud Monitoring (cluster.monitoring, component DCGM)"
        )
    notes += [
        f"{at} workload {deployment.name} is not scraped: of a container it is not known where its "
        "metrics are"
        for deployment in fleet.deployments
        if isinstance(deployment.workload, ContainerWorkload)
    ]
    return notes


def _makes_its_cluster(fleet: FleetPlan) -> bool:
    return not isinstance(fleet, ExistingFleetPlan) and not fleet.cluster.existing
