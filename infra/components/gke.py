"""A GKE cluster, a system pool, and the GPU pools of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_gcp as gcp

from infra import values
from infra.components.existing_gke_cluster import existing_gke_cluster
from infra.components.gke_control_plane import control_plane_access, reached_at
from infra.components.gke_gpu_networks import GpuVpc, gpu_vpcs
from infra.components.gke_maintenance import maintenance_policy
from infra.components.gke_monitoring import logging_config, monitoring_config
from infra.components.gke_network import ClusterNetwork, cluster_network
from infra.components.gke_node_pools import SCOPES, PoolHome, gpu_pool, system_pool
from infra.plan import GkeClusterPlan, GkeFleetPlan

_THROW_AWAY_DISK_GB = 20
"""Disk of each node of the pool that is removed at once. GKE's images need 10 GB."""


class GkeCluster(pulumi.ComponentResource):
    """Outputs: `cluster`, `kubeconfig` (JSON text, no secret in it), `endpoint`, `system_pool`,
    `pools` by name, `gpu_networks` by name.
    """

    cluster: gcp.container.Cluster
    kubeconfig: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    system_pool: Sequence[pulumi.Resource]
    """None or one."""
    pools: Mapping[str, pulumi.Resource]
    gpu_networks: Mapping[str, GpuVpc]

    def __init__(
        self,
        name: str,
        plan: GkeFleetPlan,
        *,
        project: str,
        provider: gcp.Provider,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[provider]))
        super().__init__("slicewright:index:GkeCluster", name, {}, options)
        child = pulumi.ResourceOptions(parent=self)
        account = gcp.serviceaccount.Account(
            f"{name}-nodes",
            account_id=plan.cluster.node_account_id,
            display_name=f"Nodes of GKE cluster {plan.cluster.name}",
            opts=child,
        )
        right = gcp.projects.IAMMember(
            f"{name}-nodes",
            project=project,
            role="roles/container.defaultNodeServiceAccount",
            member=account.email.apply(lambda email: f"serviceAccount:{email}"),
            opts=child,
        )
        if plan.cluster.existing:
            existing = existing_gke_cluster(name, plan, project=project, parent=self)
            self.cluster, cluster_id = existing.found, existing.id
            server, ca_data = existing.server, existing.ca_data
            way_out: tuple[pulumi.Resource, ...] = ()
        else:
            network = cluster_network(name, plan.cluster, project=project, parent=self)
            self.cluster = _new_cluster(
                name, plan.cluster, network, account, project=project, parent=self
            )
            cluster_id, way_out = self.cluster.id, network.way_out
            server, ca_data = reached_at(self.cluster, by_dns=plan.cluster.by_dns)
        self.gpu_networks = gpu_vpcs(name, plan.cluster, self)
        before = (one for vpc in self.gpu_networks.values() for one in vpc.before_nodes)
        home = PoolHome(
            parent=self,
            cluster=self.cluster,
            cluster_id=cluster_id,
            account=account,
            rights=[right, *way_out, *before],
            private_nodes=plan.cluster.private_nodes,
            kms_key=plan.cluster.kms_key,
            gpu_networks=self.gpu_networks,
        )
        self.system_pool = [system_pool(name, plan.system, home)] if plan.system is not None else []
        self.pools = {
            pool.name: gpu_pool(name, pool, home, after=self.system_pool) for pool in plan.pools
        }
        self.endpoint = server.apply(lambda host: f"https://{host}")
        self.kubeconfig = pulumi.Output.all(self.cluster.name, self.endpoint, ca_data).apply(
            lambda known: json.dumps(
                values.kubeconfig(
                    cluster=known[0],
                    server=known[1],
                    ca_data=known[2],
                    command="gke-gcloud-auth-plugin",
                )
            )
        )
        self.register_outputs({"endpoint": self.endpoint, "kubeconfig": self.kubeconfig})


def _new_cluster(
    name: str,
    cluster: GkeClusterPlan,
    network: ClusterNetwork,
    account: gcp.serviceaccount.Account,
    *,
    project: str,
    parent: pulumi.Resource,
) -> gcp.container.Cluster:
    return gcp.container.Cluster(
        name,
        name=cluster.name,
        location=cluster.location,
        network=network.vpc,
        subnetwork=network.subnet,
        networking_mode="VPC_NATIVE",
        ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
            cluster_secondary_range_name=network.pods_range,
            services_secondary_range_name=network.services_range,
        ),
        # Dataplane V2: it enforces NetworkPolicies, and our metrics have one.
        datapath_provider="ADVANCED_DATAPATH",
        enable_multi_networking=True if cluster.gpu_networks else None,
        **control_plane_access(cluster),
        maintenance_policy=maintenance_policy(cluster.maintenance),
        monitoring_config=monitoring_config(cluster.monitoring),
        logging_config=logging_config(cluster.logging),
        database_encryption=(
            gcp.container.ClusterDatabaseEncryptionArgs(
                state="ENCRYPTED", key_name=cluster.secrets_key
            )
            if cluster.secrets_key is not None
            else None
        ),
        resource_labels=dict(cluster.resource_labels) or None,
        release_channel=gcp.container.ClusterReleaseChannelArgs(channel=cluster.release_channel),
        min_master_version=cluster.version,
        workload_identity_config=gcp.container.ClusterWorkloadIdentityConfigArgs(
            workload_pool=f"{project}.svc.id.goog"
        ),
        # GKE creates no cluster without a pool; this one is removed at once, so that every pool
        # is a resource of its own. By default its three nodes would take 300 GB of the quota
        # for SSDs (a new project has 250 GB), and run as the default compute account
        # (terraform-google-modules/terraform-google-kubernetes-engine #1795).
        remove_default_node_pool=True,
        initial_node_count=1,
        node_config=gcp.container.ClusterNodeConfigArgs(
            disk_type="pd-standard",
            disk_size_gb=_THROW_AWAY_DISK_GB,
            boot_disk_kms_key=cluster.kms_key,
            service_account=account.email,
            oauth_scopes=list(SCOPES),
        ),
        # Pulumi can protect the stack; the cloud's protection would only make `pulumi destroy`
        # fail half way.
        deletion_protection=False,
        opts=pulumi.ResourceOptions.merge(
            # A cluster of an earlier version keeps its own: GKE would replace the cluster. And
            # the pool that nodeConfig describes is gone.
            pulumi.ResourceOptions(parent=parent),
            pulumi.ResourceOptions(
                ignore_changes=[
                    "datapathProvider",
                    "nodeConfig",
                    # Once it is on it stays: it would go before the pools that use it.
                    *([] if cluster.gpu_networks else ["enableMultiNetworking"]),
                ]
            ),
        ),
    )
