"""The endpoints of a GKE control plane, and the networks that may use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import pulumi
import pulumi_gcp as gcp

from slicewright.infra.plan import GkeClusterPlan
from slicewright.infra.stack_file import AuthorizedNetwork


@dataclass(frozen=True, kw_only=True)
class GkeControlPlane:
    """A cluster, new or existing, and its address."""

    cluster: gcp.container.Cluster
    cluster_id: pulumi.Output[str]
    """The cluster's path. It is known once the cluster may have node pools: resources that need it
    are not created in an existing cluster that does not fit them.
    """
    server: pulumi.Output[str]
    """The host in a kubeconfig."""
    ca_data: pulumi.Output[str | None]
    """The certificate of the server's signer. None: all clients trust the server."""
    egress: tuple[pulumi.Resource, ...] = ()
    """The resources that nodes need before they join, to pull images."""


class Access(TypedDict, total=False):
    """Inputs of a cluster that concern its endpoints."""

    private_cluster_config: gcp.container.ClusterPrivateClusterConfigArgs
    control_plane_endpoints_config: gcp.container.ClusterControlPlaneEndpointsConfigArgs
    master_authorized_networks_config: gcp.container.ClusterMasterAuthorizedNetworksConfigArgs


def control_plane_access(cluster: GkeClusterPlan) -> Access:
    """The inputs that the stack file states. Any other value could differ from GKE's own."""
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
    # GKE gives no private endpoint without authorized networks, but their list may be empty
    # (terraform-google-modules/terraform-google-kubernetes-engine #1012).
    if control_plane.authorized_networks is not None or control_plane.private_endpoint:
        access["master_authorized_networks_config"] = _authorized_networks(
            control_plane.authorized_networks or ()
        )
    return access


def _authorized_networks(
    networks: Sequence[AuthorizedNetwork],
) -> gcp.container.ClusterMasterAuthorizedNetworksConfigArgs:
    block = gcp.container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs
    return gcp.container.ClusterMasterAuthorizedNetworksConfigArgs(
        cidr_blocks=[
            block(cidr_block=network.cidr, display_name=network.name) for network in networks
        ]
    )


def endpoint_and_ca(
    cluster: gcp.container.Cluster, *, by_dns: bool
) -> tuple[pulumi.Output[str], pulumi.Output[str | None]]:
    """The host in a kubeconfig, and the certificate of its signer.

    The DNS name has a certificate that all clients trust, so it needs none.
    """
    if by_dns:
        name = cluster.control_plane_endpoints_config.apply(
            lambda config: str(config.dns_endpoint_config.endpoint)
        )
        return name, pulumi.Output.from_input(None)
    # All of master_auth is secret because one of its members is. The certificate is not.
    ca_data = pulumi.Output.unsecret(cluster.master_auth.cluster_ca_certificate)
    return cluster.endpoint, ca_data
