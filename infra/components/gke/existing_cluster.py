"""An existing GKE cluster. Each run looks it up, and no run changes or deletes it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pulumi
import pulumi_gcp as gcp

from slicewright.infra import manifests
from slicewright.infra.components.gke.control_plane import GkeControlPlane, endpoint_and_ca
from slicewright.infra.plan import GkeFleetPlan


class UnfitCluster(pulumi.RunError):
    """The cluster does not fit the pools. Pulumi prints this without a traceback."""


def existing_gke_cluster(
    name: str, plan: GkeFleetPlan, *, project: str, parent: pulumi.Resource
) -> GkeControlPlane:
    """The existing cluster. Raises UnfitCluster, also in a preview, or ends the run if missing."""
    cluster = gcp.container.Cluster.get(
        name,
        f"projects/{project}/locations/{plan.cluster.location}/clusters/{plan.cluster.name}",
        opts=pulumi.ResourceOptions(parent=parent),
    )
    dns_name = _preferred_dns_name(cluster)
    address, ca_data = endpoint_and_ca(cluster, by_dns=False)
    return GkeControlPlane(
        cluster=cluster,
        cluster_id=_id_if_fit(cluster, plan, project),
        server=pulumi.Output.all(dns_name, address).apply(lambda hosts: str(hosts[0] or hosts[1])),
        ca_data=pulumi.Output.all(dns_name, ca_data).apply(
            lambda fields: None if fields[0] else str(fields[1])
        ),
    )


def _id_if_fit(
    cluster: gcp.container.Cluster, plan: GkeFleetPlan, project: str
) -> pulumi.Output[str]:
    """The cluster's path. Raises UnfitCluster in the output if the cluster does not fit."""

    return pulumi.Output.all(
        cluster.id,
        cluster.master_version,
        cluster.enable_autopilot,
        # Each object is read by itself: Output.all turns objects with members into dictionaries.
        cluster.workload_identity_config.apply(_workload_pool),
        cluster.datapath_provider,
        cluster.enable_multi_networking,
        cluster.monitoring_config.apply(_has_collectors),
    ).apply(partial(_require_fit, plan, project))


def _require_fit(plan: GkeFleetPlan, project: str, fields: list[Any]) -> str:
    id_, version, autopilot, workload_pool, datapath, multi_networking, collectors = fields
    problems = manifests.unfit_gke_cluster(
        plan.cluster,
        project=project,
        version=version,
        autopilot=bool(autopilot),
        workload_pool=workload_pool,
        gpu_networks=plan.gpu_networks,
        dataplane_v2=datapath == "ADVANCED_DATAPATH",
        multi_networking=bool(multi_networking),
        managed_prometheus=plan.monitoring is not None and plan.monitoring.managed,
        collectors=collectors,
    )
    if problems:
        raise UnfitCluster(problems)
    return str(id_)


def _workload_pool(
    config: gcp.container.outputs.ClusterWorkloadIdentityConfig | None,
) -> str | None:
    return config.workload_pool if config else None


def _has_collectors(config: gcp.container.outputs.ClusterMonitoringConfig | None) -> bool:
    """True if the cluster runs the collectors of Managed Prometheus."""
    return bool(config and config.managed_prometheus and config.managed_prometheus.enabled)


def _preferred_dns_name(cluster: gcp.container.Cluster) -> pulumi.Output[str | None]:
    """The DNS name, if users may use it and the cluster has no public address."""
    endpoints = cluster.control_plane_endpoints_config
    is_private = cluster.private_cluster_config.apply(
        lambda config: bool(config and config.enable_private_endpoint)
    )

    def choose(fields: list[Any]) -> str | None:
        dns_name, has_address, private = fields
        return dns_name if private or not has_address else None

    return pulumi.Output.all(
        endpoints.apply(_dns_name), endpoints.apply(_has_address), is_private
    ).apply(choose)


def _dns_name(config: gcp.container.outputs.ClusterControlPlaneEndpointsConfig) -> str | None:
    """The control plane's DNS name, if users may use it."""
    dns = config.dns_endpoint_config if config else None
    return dns.endpoint if dns and dns.allow_external_traffic else None


def _has_address(config: gcp.container.outputs.ClusterControlPlaneEndpointsConfig) -> bool:
    ip = config.ip_endpoints_config if config else None
    return ip is None or ip.enabled is not False
