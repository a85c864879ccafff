"""Notes on a fleet's Prometheus, to read before `pulumi up`."""

from __future__ import annotations

from infra.plan.model.fleets import ByoFleetPlan, FleetPlan, GkeFleetPlan
from infra.spec import ContainerWorkload, ExistingPrometheus, ManagedPrometheus, PrometheusStack


def monitoring_notes(fleet: FleetPlan) -> list[str]:
    """One sentence each. Empty without monitoring."""
    if fleet.monitoring is None:
        return []
    asked, at, found = fleet.monitoring.asked, "monitoring:", []
    if isinstance(asked, PrometheusStack):
        if asked.storage is None:
            found.append(
                f"{at} without storage, what Prometheus has kept goes with its pod; write storage: "
                "{size: 20Gi}"
            )
        if asked.alerts and asked.alertmanager is None:
            found.append(
                f"{at} alerts are seen in Prometheus only and notify no one; write alertmanager: "
                "{config_secret: …}"
            )
        if asked.dashboards:
            found.append(
                f"{at} dashboards are ConfigMaps for a Grafana that you run; without one write "
                "dashboards: false"
            )
    if isinstance(asked, ExistingPrometheus) and _makes_its_cluster(fleet):
        found.append(
            f"{at} a new cluster has no Prometheus: install it, with its operator, before you "
            "write prometheus: existing, or write stack"
        )
    if isinstance(asked, ManagedPrometheus):
        # GKE docs, managed collection; Google Cloud Observability pricing.
        found.append(
            f"{at} Google bills per sample, and each series sends one every "
            f"{fleet.monitoring.interval_s} seconds"
        )
    if isinstance(fleet, GkeFleetPlan) and (
        native := [pool.name for pool in fleet.pools if not pool.operated]
    ):
        found.append(
            f"{at} DCGM's exporter of pools that GKE partitions, {', '.join(native)}, is GKE's "
            "own: its metrics are in Cloud Monitoring (cluster.monitoring, component DCGM)"
        )
    found += [
        f"{at} workload {one.name} is not scraped: of a container it is not known where its "
        "metrics are"
        for one in fleet.deployments
        if isinstance(one.asked, ContainerWorkload)
    ]
    return found


def _makes_its_cluster(fleet: FleetPlan) -> bool:
    return not isinstance(fleet, ByoFleetPlan) and not fleet.cluster.existing
