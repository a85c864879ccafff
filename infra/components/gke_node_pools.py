"""The node pools of a GKE cluster: its system pool and the GPU pools of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from infra.components.gke_gpu_networks import GpuVpc
from infra.plan import (
    GPU_NETWORK_LABEL,
    NETWORK_PROFILE_LABEL,
    SYSTEM_LABELS,
    GkePoolPlan,
    NodeCount,
    SystemPoolPlan,
    Taint,
    first_nodes,
)
from infra.spec import (
    BlueGreen,
    Capacity,
    FlexStart,
    GkeOnDemand,
    GkeReservation,
    GkeSpot,
    Queued,
    Surge,
    Upgrade,
)

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
"""The service account's roles limit the rights. Scopes would only narrow them further."""


REPLACE_ON_CHANGES = (
    # The provider does not update placement policies: a change of the type alone would be shown
    # and have no effect (resource_container_node_pool.go).
    "placementPolicy",
    # The provider keeps fields that network_config no longer states. These labels go with it.
    f'nodeConfig.labels["{NETWORK_PROFILE_LABEL}"]',
    f'nodeConfig.labels["{GPU_NETWORK_LABEL}"]',
)
"""Inputs of a GPU pool whose change replaces it, in addition to the provider's."""


@dataclass(frozen=True, kw_only=True)
class PoolHome:
    """The cluster of node pools, and the service account of their nodes."""

    parent: pulumi.Resource
    cluster: gcp.container.Cluster
    cluster_id: pulumi.Input[str]
    """Its path, known once the cluster may have pools."""
    account: gcp.serviceaccount.Account
    rights: Sequence[pulumi.Resource]
    """The rights of the account, and the egress to registries. Without the rights, a joining node
    has no logs and metrics.
    """
    private_nodes: bool | None
    """None: not stated."""
    kms_key: str | None
    """The key of boot disks. None: Google's key."""

    gpu_networks: Mapping[str, GpuVpc] = field(default_factory=dict)
    """Maps network name to VPC."""

    def network_config(
        self, *, dranet: bool = False, additional: Sequence[str] = ()
    ) -> gcp.container.NodePoolNetworkConfigArgs | None:
        """GKE takes the cluster's setting of private nodes for new pools only. additional: names
        of networks for GPUs.
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


def system_pool(name: str, pool: SystemPoolPlan, home: PoolHome) -> gcp.container.NodePool:
    return gcp.container.NodePool(
        f"{name}-{pool.name}",
        name=pool.name,
        cluster=home.cluster_id,
        network_config=home.network_config(),
        node_locations=list(pool.zones),
        **_count(pool.nodes, len(pool.zones)),
        management=gcp.container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True),
        node_config=gcp.container.NodePoolNodeConfigArgs(
            machine_type=pool.machine_type,
            labels=dict(SYSTEM_LABELS),
            boot_disk_kms_key=home.kms_key,
            service_account=home.account.email,
            oauth_scopes=list(SCOPES),
            workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
                mode="GKE_METADATA"
            ),
        ),
        opts=_options(home, pool.nodes),
    )


def gpu_pool(
    name: str, pool: GkePoolPlan, home: PoolHome, *, after: Sequence[pulumi.Resource]
) -> gcp.container.NodePool:
    """A planned pool. GKE adds the taint nvidia.com/gpu if a pool without GPUs exists.

    after: the pool without GPUs, if the stack makes it.
    """
    return gcp.container.NodePool(
        f"{name}-{pool.name}",
        name=pool.name,
        cluster=home.cluster_id,
        network_config=home.network_config(
            dranet=pool.settings.gpu_network == "dranet",
            additional=[network.name for network in pool.settings.gpu_networks],
        ),
        node_locations=list(pool.settings.zones),
        **_count(pool.nodes, len(pool.settings.zones), pool.settings.location_policy),
        max_pods_per_node=pool.settings.max_pods_per_node,
        management=gcp.container.NodePoolManagementArgs(
            auto_repair=pool.settings.management.auto_repair,
            auto_upgrade=pool.settings.management.auto_upgrade,
        ),
        upgrade_settings=_upgrade(pool.settings.upgrade),
        placement_policy=(
            gcp.container.NodePoolPlacementPolicyArgs(
                type="COMPACT", policy_name=pool.settings.placement_policy
            )
            if pool.settings.placement == "compact"
            else None
        ),
        queued_provisioning=(
            gcp.container.NodePoolQueuedProvisioningArgs(enabled=True)
            if isinstance(pool.settings.capacity, Queued)
            else None
        ),
        node_config=_gpu_node(pool, home),
        # The name is fixed, so the old pool is deleted before the new one is created.
        opts=pulumi.ResourceOptions.merge(
            _options(home, pool.nodes, *after),
            pulumi.ResourceOptions(
                delete_before_replace=True, replace_on_changes=list(REPLACE_ON_CHANGES)
            ),
        ),
    )


def _options(home: PoolHome, nodes: NodeCount, *after: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(
        parent=home.parent,
        depends_on=[*home.rights, *after],
        ignore_changes=[
            # An imported pool has the cluster's name here instead of its path, and would be
            # replaced for it. Source: resource_container_node_pool.go, the importer.
            "cluster",
            # The autoscaler changes the count. The initial one is used at creation only, and
            # changing it would replace the pool.
            *(("initialNodeCount", "nodeCount") if nodes.autoscaled else ()),
        ],
        replace_with=[home.cluster],
    )


def _count(nodes: NodeCount, zones: int, location_policy: str | None = None) -> dict[str, object]:
    """GKE counts fixed nodes per zone, but autoscaled ones over all zones, as the plan does."""
    if not nodes.autoscaled:
        return {"node_count": nodes.max // zones}
    return {
        "initial_node_count": first_nodes(nodes, zones),
        "autoscaling": gcp.container.NodePoolAutoscalingArgs(
            total_min_node_count=nodes.min,
            total_max_node_count=nodes.max,
            location_policy=location_policy,
        ),
    }


def _upgrade(upgrade: Upgrade) -> gcp.container.NodePoolUpgradeSettingsArgs:
    match upgrade:
        case Surge():
            return gcp.container.NodePoolUpgradeSettingsArgs(
                strategy="SURGE",
                max_surge=upgrade.max_surge,
                max_unavailable=upgrade.max_unavailable,
            )
        case BlueGreen():
            batches = (
                gcp.container.NodePoolUpgradeSettingsBlueGreenSettingsStandardRolloutPolicyArgs
            )
            percent = upgrade.batch_percent
            return gcp.container.NodePoolUpgradeSettingsArgs(
                strategy="BLUE_GREEN",
                blue_green_settings=gcp.container.NodePoolUpgradeSettingsBlueGreenSettingsArgs(
                    standard_rollout_policy=batches(
                        batch_node_count=upgrade.batch_nodes,
                        batch_percentage=None if percent is None else percent / 100,
                        batch_soak_duration=f"{upgrade.batch_soak_minutes * 60}s",
                    ),
                    node_pool_soak_duration=f"{upgrade.soak_minutes * 60}s",
                ),
            )


def _gpu_node(pool: GkePoolPlan, home: PoolHome) -> gcp.container.NodePoolNodeConfigArgs:
    accelerator = gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
        type=pool.settings.accelerator,
        count=pool.gpu_count,
        gpu_partition_size=pool.settings.partition_size,
        gpu_sharing_config=(
            gcp.container.NodePoolNodeConfigGuestAcceleratorGpuSharingConfigArgs(
                gpu_sharing_strategy=pool.settings.sharing_strategy,
                max_shared_clients_per_gpu=pool.settings.shared_clients or 0,
            )
            if pool.settings.sharing_strategy is not None
            else None
        ),
        # Always stated: newer GKE fills in DEFAULT, which would then differ from the program.
        gpu_driver_installation_config=gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
            gpu_driver_version=pool.settings.driver
        ),
    )
    ephemeral, raw = pool.settings.local_ssd.ephemeral, pool.settings.local_ssd.raw
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=pool.settings.machine.name,
        guest_accelerators=[accelerator],
        image_type=pool.settings.image_type,
        disk_size_gb=pool.settings.disk.size_gb,
        disk_type=pool.settings.disk.type,
        boot_disk_kms_key=home.kms_key,
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
        spot=pool.settings.spot,
        preemptible=False,
        flex_start=True if isinstance(pool.settings.capacity, FlexStart) else None,
        max_run_duration=_max_run_duration(pool.settings.capacity),
        reservation_affinity=_reservation_affinity(pool.settings.capacity),
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=pool.settings.features.gvnic),
        gcfs_config=gcp.container.NodePoolNodeConfigGcfsConfigArgs(
            enabled=pool.settings.features.gcfs
        ),
        # Always stated: left out after it was on, it would differ on every `up`.
        fast_socket=gcp.container.NodePoolNodeConfigFastSocketArgs(
            enabled=pool.settings.features.fast_socket
        ),
        logging_variant=pool.settings.features.logging_variant,
        # Nothing comes to the nodes that does not tolerate slicewright's taint. Images of GKE, of
        # NVIDIA's operator and of slicewright's pods are for both architectures.
        taint_config=(
            gcp.container.NodePoolNodeConfigTaintConfigArgs(architecture_taint_behavior="NONE")
            if pool.settings.machine.architecture == "arm64"
            else None
        ),
        labels=dict(pool.labels),
        resource_labels=dict(pool.settings.resource_labels) or None,
        taints=[_taint(taint) for taint in pool.taints],
        service_account=home.account.email,
        oauth_scopes=list(SCOPES),
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
            mode="GKE_METADATA"
        ),
    )


def _max_run_duration(capacity: Capacity) -> str | None:
    """The limit in seconds, in the API's format."""
    if not isinstance(capacity, FlexStart | Queued | GkeOnDemand | GkeSpot):
        return None
    return None if capacity.max_run_hours is None else f"{capacity.max_run_hours * 3600}s"


def _reservation_affinity(
    capacity: Capacity,
) -> gcp.container.NodePoolNodeConfigReservationAffinityArgs | None:
    """None leaves it to GKE."""
    if isinstance(capacity, FlexStart | Queued):
        return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="NO_RESERVATION"
        )
    if not isinstance(capacity, GkeReservation):
        return None
    if capacity.reservation is None:
        falls_back = capacity.fallback == "on-demand"
        return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type=(
                "ANY_RESERVATION" if falls_back else "ANY_RESERVATION_THEN_FAIL"
            )
        )
    return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
        consume_reservation_type="SPECIFIC_RESERVATION",
        key="compute.googleapis.com/reservation-name",
        values=[capacity.reservation],
    )


def _taint(taint: Taint) -> gcp.container.NodePoolNodeConfigTaintArgs:
    return gcp.container.NodePoolNodeConfigTaintArgs(
        key=taint.key, value=taint.value, effect=taint.cloud_effect
    )
