"""A GKE cluster that exists: looked up at every run, never changed, never deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from infra import values
from infra.components.gke_control_plane import reached_at
from infra.plan import GkeFleetPlan


class UnfitCluster(pulumi.RunError):
    """The cluster cannot have the pools. Pulumi prints a RunError's message without a traceback."""


@dataclass(frozen=True, kw_only=True)
class ExistingCluster:
    found: gcp.container.Cluster
    id: pulumi.Output[str]
    """Once the cluster is fit for the pools: what needs it is not made otherwise."""
    server: pulumi.Output[str]
    """The host of a kubeconfig's server: the DNS name where that is open to users and there is no
    public address, else the address.
    """
    ca_data: pulumi.Output[str | None]


def existing_gke_cluster(
    name: str, plan: GkeFleetPlan, *, project: str, parent: pulumi.Resource
) -> ExistingCluster:
    """Raises UnfitCluster, also in a preview; a cluster that is not there ends the run itself."""
    cluster = plan.cluster
    found = gcp.container.Cluster.get(
        name,
        f"projects/{project}/locations/{cluster.location}/clusters/{cluster.name}",
        opts=pulumi.ResourceOptions(parent=parent),
    )

    def judged(known: list[Any]) -> str:
        id_, version, autopilot, workload_pool, datapath, multi_networking, collectors = known
        wrong = values.unfit_gke_cluster(
            cluster,
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
        if wrong:
            raise UnfitCluster(wrong)
        return str(id_)

    # One by one: Output.all turns objects with members into plain dictionaries.
    workload_pool = found.workload_identity_config.apply(
        lambda config: config.workload_pool if config else None
    )
    collectors = found.monitoring_config.apply(
        lambda config: bool(
            config and config.managed_prometheus and config.managed_prometheus.enabled
        )
    )
    dns_name = pulumi.Output.all(
        found.control_plane_endpoints_config.apply(_dns_name),
        found.control_plane_endpoints_config.apply(_has_address),
        found.private_cluster_config.apply(
            lambda config: bool(config and config.enable_private_endpoint)
        ),
    ).apply(lambda known: known[0] if known[2] or not known[1] else None)
    address, ca_data = reached_at(found, by_dns=False)
    return ExistingCluster(
        found=found,
        id=pulumi.Output.all(
            found.id,
            found.master_version,
            found.enable_autopilot,
            workload_pool,
            found.datapath_provider,
            found.enable_multi_networking,
            collectors,
        ).apply(judged),
        server=pulumi.Output.all(dns_name, address).apply(lambda known: str(known[0] or known[1])),
        ca_data=pulumi.Output.all(dns_name, ca_data).apply(
            lambda known: None if known[0] else str(known[1])
        ),
    )


def _dns_name(config: gcp.container.outputs.ClusterControlPlaneEndpointsConfig) -> str | None:
    """The control plane's DNS name, if it is open to users. All clients trust its certificate, as
    in `infra.components.gke_control_plane`.
    """
    dns = config.dns_endpoint_config if config else None
    return dns.endpoint if dns and dns.allow_external_traffic else None


def _has_address(config: gcp.container.outputs.ClusterControlPlaneEndpointsConfig) -> bool:
    ip = config.ip_endpoints_config if config else None
    return ip is None or ip.enabled is not False
