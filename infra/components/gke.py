"""A GKE cluster with a network of its own, a system pool, and the GPU pools of a plan."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pulumi
import pulumi_gcp as gcp

from infra import values
from infra.plan import SYSTEM_LABELS, GkeFleetPlan, GkePoolPlan, NodeCount, Taint

_NODES_RANGE = "10.0.0.0/20"
_PODS_RANGE = "10.4.0.0/14"
"""1,024 nodes of 110 pods: GKE gives a node twice the addresses of its pods."""
_SERVICES_RANGE = "10.8.0.0/20"
_THROW_AWAY_DISK_GB = 20
"""Of each node of the pool that is removed at once; GKE's images need 10."""
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
"""The service account's roles decide what is allowed; scopes would only narrow it further."""


class GkeCluster(pulumi.ComponentResource):
    """Outputs: `cluster`, `kubeconfig` (JSON text, no secret in it), `endpoint`, `system_pool`,
    `pools` by name.
    """

    cluster: gcp.container.Cluster
    kubeconfig: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    system_pool: pulumi.Resource
    pools: Mapping[str, pulumi.Resource]

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
        network = gcp.compute.Network(f"{name}-network", auto_create_subnetworks=False, opts=child)
        subnetwork = gcp.compute.Subnetwork(
            f"{name}-nodes",
            network=network.id,
            region=plan.cluster.region,
            ip_cidr_range=_NODES_RANGE,
            private_ip_google_access=True,
            secondary_ip_ranges=[
                gcp.compute.SubnetworkSecondaryIpRangeArgs(
                    range_name="pods", ip_cidr_range=_PODS_RANGE
                ),
                gcp.compute.SubnetworkSecondaryIpRangeArgs(
                    range_name="services", ip_cidr_range=_SERVICES_RANGE
                ),
            ],
            opts=child,
        )
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
        self.cluster = gcp.container.Cluster(
            name,
            name=plan.cluster.name,
            location=plan.cluster.location,
            network=network.id,
            subnetwork=subnetwork.id,
            networking_mode="VPC_NATIVE",
            ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
                cluster_secondary_range_name="pods", services_secondary_range_name="services"
            ),
            # Dataplane V2: it enforces NetworkPolicies, of which there is one for our metrics.
            datapath_provider="ADVANCED_DATAPATH",
            release_channel=gcp.container.ClusterReleaseChannelArgs(
                channel=plan.cluster.release_channel
            ),
            min_master_version=plan.cluster.version,
            workload_identity_config=gcp.container.ClusterWorkloadIdentityConfigArgs(
                workload_pool=f"{project}.svc.id.goog"
            ),
            # GKE creates no cluster without a pool; this one is removed at once, so that every pool
            # is a resource of its own. By default its three nodes would take 300 GB of the quota
            # for SSDs, of which a new project has 250, and run as the default compute account
            # (terraform-google-modules/terraform-google-kubernetes-engine #1795).
            remove_default_node_pool=True,
            initial_node_count=1,
            node_config=gcp.container.ClusterNodeConfigArgs(
                disk_type="pd-standard",
                disk_size_gb=_THROW_AWAY_DISK_GB,
                service_account=account.email,
                oauth_scopes=list(_SCOPES),
            ),
            # Pulumi can protect the stack; the cloud's protection would only make `pulumi destroy`
            # fail half way.
            deletion_protection=False,
            opts=pulumi.ResourceOptions.merge(
                # A cluster of an earlier version keeps its own: GKE would replace the cluster. And
                # the pool that nodeConfig describes is gone.
                child,
                pulumi.ResourceOptions(ignore_changes=["datapathProvider", "nodeConfig"]),
            ),
        )
        self._account = account
        # A node that joins before its account has its roles has no logs and metrics.
        self._rights = [right]
        self.system_pool = gcp.container.NodePool(
            f"{name}-{plan.system.name}",
            name=plan.system.name,
            cluster=self.cluster.id,
            node_locations=list(plan.system.zones),
            **_count(plan.system.nodes, len(plan.system.zones)),
            management=gcp.container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True),
            node_config=gcp.container.NodePoolNodeConfigArgs(
                machine_type=plan.system.machine_type,
                labels=dict(SYSTEM_LABELS),
                service_account=account.email,
                oauth_scopes=list(_SCOPES),
                workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
                    mode="GKE_METADATA"
                ),
            ),
            opts=self._pool_options([], plan.system.nodes),
        )
        self.pools = {pool.name: self._gpu_pool(name, pool) for pool in plan.pools}
        self.endpoint = self.cluster.endpoint.apply(lambda endpoint: f"https://{endpoint}")
        # All of master_auth is secret because one of its members is; the certificate is not.
        ca_data = pulumi.Output.unsecret(self.cluster.master_auth.cluster_ca_certificate)
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

    def _gpu_pool(self, name: str, pool: GkePoolPlan) -> gcp.container.NodePool:
        """A planned pool. GKE adds the taint nvidia.com/gpu, since a pool without GPUs exists."""
        zones = len(pool.zones)
        return gcp.container.NodePool(
            f"{name}-{pool.name}",
            name=pool.name,
            cluster=self.cluster.id,
            node_locations=list(pool.zones),
            **_count(pool.nodes, zones),
            max_pods_per_node=pool.max_pods_per_node,
            management=gcp.container.NodePoolManagementArgs(
                auto_repair=pool.management.auto_repair, auto_upgrade=pool.management.auto_upgrade
            ),
            # No extra GPU node for an upgrade: quota and capacity for one are rarely available.
            upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(
                strategy="SURGE", max_surge=0, max_unavailable=1
            ),
            node_config=_gpu_node(pool, self._account),
            # The name is fixed, so the old pool is deleted before the new one is created.
            opts=pulumi.ResourceOptions.merge(
                self._pool_options([self.system_pool], pool.nodes),
                pulumi.ResourceOptions(delete_before_replace=True),
            ),
        )

    def _pool_options(
        self, after: list[pulumi.Resource], nodes: NodeCount
    ) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            depends_on=[*self._rights, *after],
            # The autoscaler changes the count; the initial one is used at creation only, and
            # changing it would replace the pool.
            ignore_changes=["initialNodeCount", "nodeCount"] if nodes.autoscaled else None,
        )


def _count(nodes: NodeCount, zones: int) -> dict[str, object]:
    """GKE counts fixed nodes per zone, but autoscaled ones over all zones, as the plan does."""
    if not nodes.autoscaled:
        return {"node_count": nodes.max // zones}
    return {
        "initial_node_count": math.ceil(nodes.min / zones),
        "autoscaling": gcp.container.NodePoolAutoscalingArgs(
            total_min_node_count=nodes.min, total_max_node_count=nodes.max
        ),
    }


def _gpu_node(
    pool: GkePoolPlan, account: gcp.serviceaccount.Account
) -> gcp.container.NodePoolNodeConfigArgs:
    accelerator = gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
        type=pool.accelerator,
        count=pool.gpu_count,
        gpu_partition_size=pool.partition_size,
        gpu_sharing_config=(
            gcp.container.NodePoolNodeConfigGuestAcceleratorGpuSharingConfigArgs(
                gpu_sharing_strategy=pool.sharing_strategy,
                max_shared_clients_per_gpu=pool.shared_clients or 0,
            )
            if pool.sharing_strategy is not None
            else None
        ),
        # Always stated: newer GKE fills in DEFAULT, which would then differ from the program.
        gpu_driver_installation_config=gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
            gpu_driver_version=pool.driver
        ),
    )
    ephemeral, raw = pool.local_ssd.ephemeral, pool.local_ssd.raw
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=pool.machine.name,
        guest_accelerators=[accelerator],
        image_type=pool.image_type,
        disk_size_gb=pool.disk.size_gb,
        disk_type=pool.disk.type,
        ephemeral_storage_local_ssd_config=(
            gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs(
                local_ssd_count=ephemeral
            )
            if ephemeral
            else None
        ),
        local_nvme_ssd_block_config=(
            gcp.container.NodePoolNodeConfigLocalNvmeSsdBlockConfigArgs(local_ssd_count=raw)
            if raw
            else None
        ),
        spot=pool.spot,
        preemptible=False,
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=pool.features.gvnic),
        gcfs_config=gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=pool.features.gcfs),
        # Always stated: left out after it was on, it would differ on every `up`.
        fast_socket=gcp.container.NodePoolNodeConfigFastSocketArgs(
            enabled=pool.features.fast_socket
        ),
        logging_variant=pool.features.logging_variant,
        labels=dict(pool.labels),
        resource_labels=dict(pool.resource_labels) or None,
        taints=[_taint(taint) for taint in pool.taints],
        service_account=account.email,
        oauth_scopes=list(_SCOPES),
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
            mode="GKE_METADATA"
        ),
    )


def _taint(taint: Taint) -> gcp.container.NodePoolNodeConfigTaintArgs:
    return gcp.container.NodePoolNodeConfigTaintArgs(
        key=taint.key, value=taint.value, effect=taint.cloud_effect
    )
