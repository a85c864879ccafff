"""A new GKE cluster in its network."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from slicewright.infra.components.gke.control_plane import (
    GkeControlPlane,
    control_plane_access,
    endpoint_and_ca,
)
from slicewright.infra.components.gke.maintenance import maintenance_policy
from slicewright.infra.components.gke.monitoring import logging_config, monitoring_config
from slicewright.infra.components.gke.network import ClusterNetwork, cluster_network
from slicewright.infra.components.gke.node_pool_context import SCOPES
from slicewright.infra.plan import GkeClusterPlan

_TEMPORARY_DISK_GB = 20
"""The disk of each node in the pool that is removed at once. GKE's images need 10 GB."""


def new_gke_cluster(
    name: str,
    plan: GkeClusterPlan,
    account: gcp.serviceaccount.Account,
    *,
    project: str,
    parent: pulumi.Resource,
) -> GkeControlPlane:
    """account: the service account of nodes."""
    network = cluster_network(name, plan, project=project, parent=parent)
    cluster = gcp.container.Cluster(
        name,
        name=plan.name,
        location=plan.location,
        **_networking(plan, network),
        **control_plane_access(plan),
        maintenance_policy=maintenance_policy(plan.maintenance),
        monitoring_config=monitoring_config(plan.monitoring),
        logging_config=logging_config(plan.logging),
        database_encryption=_encryption(plan),
        resource_labels=dict(plan.resource_labels) or None,
        release_channel=gcp.container.ClusterReleaseChannelArgs(channel=plan.release_channel),
        min_master_version=plan.version,
        workload_identity_config=gcp.container.ClusterWorkloadIdentityConfigArgs(
            workload_pool=f"{project}.svc.id.goog"
        ),
        # GKE creates no cluster without a pool. This pool is removed at once, so that every pool
        # is a resource of its own.
        remove_default_node_pool=True,
        initial_node_count=1,
        node_config=_temporary_nodes(plan, account),
        # Pulumi can protect the stack. The cloud's protection would only make `pulumi destroy`
        # fail half way.
        deletion_protection=False,
        opts=_options(plan, parent),
    )
    server, ca_data = endpoint_and_ca(cluster, by_dns=plan.by_dns)
    return GkeControlPlane(
        cluster=cluster,
        cluster_id=cluster.id,
        server=server,
        ca_data=ca_data,
        egress=network.egress,
    )


def _networking(plan: GkeClusterPlan, network: ClusterNetwork) -> dict[str, object]:
    return {
        "network": network.vpc,
        "subnetwork": network.subnet,
        "networking_mode": "VPC_NATIVE",
        "ip_allocation_policy": gcp.container.ClusterIpAllocationPolicyArgs(
            cluster_secondary_range_name=network.pods_range,
            services_secondary_range_name=network.services_range,
        ),
        # Dataplane V2: it enforces NetworkPolicies, and our metrics have one.
        "datapath_provider": "ADVANCED_DATAPATH",
        "enable_multi_networking": True if plan.gpu_networks else None,
    }


def _encryption(plan: GkeClusterPlan) -> gcp.container.ClusterDatabaseEncryptionArgs | None:
    if plan.secrets_key is None:
        return None
    return gcp.container.ClusterDatabaseEncryptionArgs(state="ENCRYPTED", key_name=plan.secrets_key)


def _temporary_nodes(
    plan: GkeClusterPlan, account: gcp.serviceaccount.Account
) -> gcp.container.ClusterNodeConfigArgs:
    """The nodes of the pool that is removed at once.

    By default its three nodes would take 300 GB of the quota for SSDs (a new project has 250 GB),
    and run as the default compute account
    (terraform-google-modules/terraform-google-kubernetes-engine #1795).
    """
    return gcp.container.ClusterNodeConfigArgs(
        disk_type="pd-standard",
        disk_size_gb=_TEMPORARY_DISK_GB,
        boot_disk_kms_key=plan.kms_key,
        service_account=account.email,
        oauth_scopes=list(SCOPES),
    )


def _options(plan: GkeClusterPlan, parent: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(
        parent=parent,
        ignore_changes=[
            # A change would replace a cluster of an earlier version, so it keeps its dataplane.
            "datapathProvider",
            # The pool that it describes is gone.
            "nodeConfig",
            # Turned off, it would go before the pools that use it. So it stays on.
            *([] if plan.gpu_networks else ["enableMultiNetworking"]),
        ],
    )
