"""How a GKE control plane is reached: its endpoints, and who may use them."""

from __future__ import annotations

from typing import TypedDict

import pulumi
import pulumi_gcp as gcp

from infra.plan import GkeClusterPlan


class Access(TypedDict, total=False):
    """Inputs of a cluster."""

    private_cluster_config: gcp.container.ClusterPrivateClusterConfigArgs
    control_plane_endpoints_config: gcp.container.ClusterControlPlaneEndpointsConfigArgs
    master_authorized_networks_config: gcp.container.ClusterMasterAuthorizedNetworksConfigArgs


def control_plane_access(cluster: GkeClusterPlan) -> Access:
    """The settings that the stack file states. Others would differ from GKE's values."""
    access: Access = {}
    control_plane = cluster.control_plane
    if cluster.private_nodes is not None or control_plane is not None:
        access["private_cluster_config"] = gcp.container.ClusterPrivateClusterConfigArgs(
            enable_private_nodes=cluster.private_nodes,
            enable_private_endpoint=None
            if control_plane is None
            else control_plane.private_endpoint,
        )
    if control_plane is None:
        return access
    access["control_plane_endpoints_config"] = gcp.container.ClusterControlPlaneEndpointsConfigArgs(
        dns_endpoint_config=gcp.container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
            allow_external_traffic=control_plane.dns_endpoint
        )
    )
    # GKE gives no private endpoint without authorized networks. There may be none in the list
    # (terraform-google-modules/terraform-google-kubernetes-engine #1012).
    if control_plane.authorized_networks is not None or control_plane.private_endpoint:
        access["master_authorized_networks_config"] = (
            gcp.container.ClusterMasterAuthorizedNetworksConfigArgs(
                cidr_blocks=[
                    gcp.container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(
                        cidr_block=network.cidr, display_name=network.name
                    )
                    for network in control_plane.authorized_networks or ()
                ]
            )
        )
    return access


def reached_at(
    cluster: gcp.container.Cluster, *, by_dns: bool
) -> tuple[pulumi.Output[str], pulumi.Output[str | None]]:
    """The host of a kubeconfig's server, and the certificate that signs its own.

    Before its DNS name stands a certificate that everybody trusts, and not the cluster's.
    """
    if by_dns:
        name = cluster.control_plane_endpoints_config.apply(
            lambda config: str(config.dns_endpoint_config.endpoint)
        )
        return name, pulumi.Output.from_input(None)
    # All of master_auth is secret because one of its members is. The certificate is not.
    ca_data = pulumi.Output.unsecret(cluster.master_auth.cluster_ca_certificate)
    return cluster.endpoint, ca_data
