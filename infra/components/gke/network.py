"""The network of a GKE cluster: a new VPC, or an existing one."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from slicewright.infra.plan import GKE_RANGES, GkeClusterPlan, GkeNetworkPlan


@dataclass(frozen=True, kw_only=True)
class ClusterNetwork:
    """The paths of a cluster's VPC and subnet, and the names of the subnet's ranges."""

    vpc: pulumi.Input[str]
    subnet: pulumi.Input[str]
    pods_range: str
    services_range: str
    egress: tuple[pulumi.Resource, ...] = ()
    """The resources that nodes need before they join, to pull images."""


def cluster_network(
    name: str, cluster: GkeClusterPlan, *, project: str, parent: pulumi.Resource
) -> ClusterNetwork:
    """name: the prefix of the names of new resources. project: the cluster's."""
    if cluster.network is not None:
        return _existing(cluster.network, cluster.region, project)
    return _new_network(name, cluster, parent)


def _existing(network: GkeNetworkPlan, region: str, project: str) -> ClusterNetwork:
    """The paths of an existing network in the form of Google's API, without a lookup."""
    owner = network.project or project
    return ClusterNetwork(
        vpc=f"projects/{owner}/global/networks/{network.vpc}",
        subnet=f"projects/{owner}/regions/{region}/subnetworks/{network.subnet}",
        pods_range=network.pods_range,
        services_range=network.services_range,
    )


def _new_network(name: str, cluster: GkeClusterPlan, parent: pulumi.Resource) -> ClusterNetwork:
    child = pulumi.ResourceOptions(parent=parent)
    network = gcp.compute.Network(f"{name}-network", auto_create_subnetworks=False, opts=child)
    subnetwork = gcp.compute.Subnetwork(
        f"{name}-nodes",
        network=network.id,
        region=cluster.region,
        ip_cidr_range=GKE_RANGES.nodes,
        private_ip_google_access=True,
        secondary_ip_ranges=[
            gcp.compute.SubnetworkSecondaryIpRangeArgs(
                range_name="pods", ip_cidr_range=GKE_RANGES.pods
            ),
            gcp.compute.SubnetworkSecondaryIpRangeArgs(
                range_name="services", ip_cidr_range=GKE_RANGES.services
            ),
        ],
        opts=child,
    )
    return ClusterNetwork(
        vpc=network.id,
        subnet=subnetwork.id,
        pods_range="pods",
        services_range="services",
        egress=(_nat(name, cluster.region, network, child),) if cluster.nat else (),
    )


def _nat(
    name: str, region: str, network: gcp.compute.Network, options: pulumi.ResourceOptions
) -> gcp.compute.RouterNat:
    router = gcp.compute.Router(f"{name}-router", network=network.id, region=region, opts=options)
    return gcp.compute.RouterNat(
        f"{name}-nat",
        router=router.name,
        region=region,
        nat_ip_allocate_option="AUTO_ONLY",
        source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
        opts=options,
    )
