"""The properties of a GKE cluster that its node pools share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from slicewright.infra.components.gke.gpu_networks import GpuVpc

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
"""The service account's roles limit the rights. Scopes would only narrow them further."""


@dataclass(frozen=True, kw_only=True)
class NodePoolContext:
    """The cluster of node pools, and the service account of their nodes."""

    parent: pulumi.Resource
    cluster: gcp.container.Cluster
    cluster_id: pulumi.Input[str]
    """The cluster's path. It is known once the cluster may have pools."""
    account: gcp.serviceaccount.Account
    node_dependencies: Sequence[pulumi.Resource]
    """The rights of the account, and the egress to registries. A node that joins before its account
    has rights sends no logs and metrics.
    """
    private_nodes: bool | None
    """None: the stack file does not say."""
    kms_key: str | None
    """The key of boot disks. None: Google's key."""
    gpu_networks: Mapping[str, GpuVpc] = field(default_factory=dict)
    """Maps network name to VPC."""

    def network_config(
        self, *, dranet: bool = False, additional: Sequence[str] = ()
    ) -> gcp.container.NodePoolNetworkConfigArgs | None:
        """A pool's networks. additional: names of networks for GPUs.

        If the stack file says whether nodes are private, every pool states it: GKE applies the
        cluster's setting to new pools only.
        """
        if self.private_nodes is None and not dranet and not additional:
            return None
        interface = gcp.container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs
        return gcp.container.NodePoolNetworkConfigArgs(
            enable_private_nodes=self.private_nodes,
            accelerator_network_profile="auto" if dranet else None,
            additional_node_network_configs=[
                interface(
                    network=self.gpu_networks[name].vpc, subnetwork=self.gpu_networks[name].subnet
                )
                for name in additional
            ]
            or None,
        )
