"""The nodes of a GKE pool with GPUs: machine, GPUs, disks, capacity, labels and taints."""

from __future__ import annotations

import pulumi_gcp as gcp

from slicewright.infra.catalog import Machine, UnlistedMachine
from slicewright.infra.components.gke.node_pool_context import SCOPES, NodePoolContext
from slicewright.infra.plan import GkePoolPlan, Taint
from slicewright.infra.stack_file import (
    Capacity,
    FlexStart,
    GkeOnDemand,
    GkeReservation,
    GkeSpot,
    Queued,
)


def gpu_node_config(
    pool: GkePoolPlan, context: NodePoolContext
) -> gcp.container.NodePoolNodeConfigArgs:
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=pool.settings.machine.name,
        guest_accelerators=[_accelerator(pool)],
        image_type=pool.settings.image_type,
        disk_size_gb=pool.settings.disk.size_gb,
        disk_type=pool.settings.disk.type,
        boot_disk_kms_key=context.kms_key,
        **_local_ssds(pool),
        **_capacity(pool),
        **_features(pool),
        # Only pods that tolerate slicewright's taint come to these nodes. The images of GKE, of
        # NVIDIA's operator and of slicewright's pods exist for both architectures.
        taint_config=without_arm_taint(pool.settings.machine),
        labels=dict(pool.labels),
        resource_labels=dict(pool.settings.resource_labels) or None,
        taints=[_taint(taint) for taint in pool.taints],
        service_account=context.account.email,
        oauth_scopes=list(SCOPES),
        workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
            mode="GKE_METADATA"
        ),
    )


def without_arm_taint(
    machine: Machine | UnlistedMachine,
) -> gcp.container.NodePoolNodeConfigTaintConfigArgs | None:
    """Keeps GKE's taint off nodes with Arm processors. None for others: GKE's default."""
    if machine.architecture != "arm64":
        return None
    return gcp.container.NodePoolNodeConfigTaintConfigArgs(architecture_taint_behavior="NONE")


def _accelerator(pool: GkePoolPlan) -> gcp.container.NodePoolNodeConfigGuestAcceleratorArgs:
    return gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
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


def _local_ssds(pool: GkePoolPlan) -> dict[str, object]:
    ephemeral, raw = pool.settings.local_ssd.ephemeral, pool.settings.local_ssd.raw
    return {
        "ephemeral_storage_local_ssd_config": (
            gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs(
                local_ssd_count=ephemeral
            )
            if ephemeral
            else None
        ),
        "local_nvme_ssd_block_config": (
            gcp.container.NodePoolNodeConfigLocalNvmeSsdBlockConfigArgs(local_ssd_count=raw)
            if raw
            else None
        ),
    }


def _features(pool: GkePoolPlan) -> dict[str, object]:
    features = pool.settings.features
    return {
        "gvnic": gcp.container.NodePoolNodeConfigGvnicArgs(enabled=features.gvnic),
        "gcfs_config": gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=features.gcfs),
        # Always stated: left out after it was on, it would differ on every `up`.
        "fast_socket": gcp.container.NodePoolNodeConfigFastSocketArgs(enabled=features.fast_socket),
        "logging_variant": features.logging_variant,
    }


def _capacity(pool: GkePoolPlan) -> dict[str, object]:
    return {
        "spot": pool.settings.spot,
        "preemptible": False,
        "flex_start": True if isinstance(pool.settings.capacity, FlexStart) else None,
        "max_run_duration": _max_run_duration(pool.settings.capacity),
        "reservation_affinity": _reservation_affinity(pool.settings.capacity),
    }


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
