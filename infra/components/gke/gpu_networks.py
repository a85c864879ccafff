"""The networks of a GKE cluster's interfaces for GPUs: their VPCs, and the cluster's objects for
pods that request them.

Source: GKE docs, maximize GPU network bandwidth in Standard mode clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.plan import GPU_MTU, GkeClusterPlan, GpuNetwork


@dataclass(frozen=True, kw_only=True)
class GpuVpc:
    vpc: pulumi.Input[str]
    """The VPC's name, which both node pools and the cluster's objects take."""
    subnet: pulumi.Input[str]
    node_dependencies: tuple[pulumi.Resource, ...] = ()
    """The resources that traffic between nodes needs."""


def gpu_vpcs(name: str, cluster: GkeClusterPlan, parent: pulumi.Resource) -> Mapping[str, GpuVpc]:
    """Maps network name to VPC. name: the prefix of the names of new resources."""
    return {
        network.name: _vpc(f"{name}-{network.name}", network, cluster.region, parent)
        for network in cluster.gpu_networks
    }


def _vpc(name: str, network: GpuNetwork, region: str, parent: pulumi.Resource) -> GpuVpc:
    if network.vpc is not None and network.subnet is not None:
        return GpuVpc(vpc=network.vpc, subnet=network.subnet)
    child = pulumi.ResourceOptions(parent=parent)
    addresses = network.addresses or ""
    vpc = gcp.compute.Network(name, auto_create_subnetworks=False, mtu=GPU_MTU, opts=child)
    subnet = gcp.compute.Subnetwork(
        name, network=vpc.id, region=region, ip_cidr_range=addresses, opts=child
    )
    # A new VPC lets nothing in: the GPUs of two nodes could not reach each other.
    firewall = gcp.compute.Firewall(
        name,
        network=vpc.id,
        direction="INGRESS",
        source_ranges=[addresses],
        allows=[
            gcp.compute.FirewallAllowArgs(protocol=protocol) for protocol in ("tcp", "udp", "icmp")
        ],
        opts=child,
    )
    return GpuVpc(vpc=vpc.name, subnet=subnet.name, node_dependencies=(firewall,))


class GpuNetworkObjects(pulumi.ComponentResource):
    """Outputs: `objects`, two for each network."""

    objects: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        networks: Mapping[str, GpuVpc],
        *,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """networks: by name. cluster: the objects are deleted with it; None if it stays.
        depends_on: the pools, whose interfaces the objects name.
        """
        super().__init__("slicewright:index:GpuNetworks", name, {}, opts)
        options = pulumi.ResourceOptions(
            parent=self, deleted_with=cluster, depends_on=[*depends_on]
        )
        self.objects = [
            resource
            for network, vpc in networks.items()
            for resource in self._network_objects(name, network, vpc, options)
        ]
        self.register_outputs({})

    def _network_objects(
        self, name: str, network: str, vpc: GpuVpc, options: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        parameters = k8s.apiextensions.CustomResource(
            f"{name}-{network}-parameters",
            api_version=manifests.NETWORKING_API,
            kind="GKENetworkParamSet",
            metadata={"name": network},
            spec=manifests.network_parameters(vpc.vpc, vpc.subnet),
            opts=options,
        )
        device_network = k8s.apiextensions.CustomResource(
            f"{name}-{network}",
            api_version=manifests.NETWORKING_API,
            kind="Network",
            metadata={"name": network},
            spec=manifests.network_of_devices(network),
            opts=pulumi.ResourceOptions.merge(
                options, pulumi.ResourceOptions(depends_on=[parameters])
            ),
        )
        return [parameters, device_network]
