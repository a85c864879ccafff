"""The node pools of a GKE cluster: its system pool and the GPU pools of a plan."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_gcp as gcp

from slicewright.infra.components.gke.gpu_node import gpu_node_config, without_arm_taint
from slicewright.infra.components.gke.node_pool_context import SCOPES, NodePoolContext
from slicewright.infra.components.node_limits import NodeLimit
from slicewright.infra.plan import (
    GPU_NETWORK_LABEL,
    NETWORK_PROFILE_LABEL,
    SYSTEM_LABELS,
    GkePoolPlan,
    NodeCount,
    SystemPoolPlan,
    first_nodes,
)
from slicewright.infra.stack_file import BlueGreen, Queued, Surge, Upgrade

REPLACE_ON_CHANGES = (
    # The provider does not update placement policies: a preview would show a change of the type
    # alone, and `up` would not make it (resource_container_node_pool.go).
    "placementPolicy",
    # The provider keeps fields that network_config no longer states. These labels change with it.
    f'nodeConfig.labels["{NETWORK_PROFILE_LABEL}"]',
    f'nodeConfig.labels["{GPU_NETWORK_LABEL}"]',
)
"""Inputs of a GPU pool whose change replaces it, in addition to the provider's."""


def system_pool(
    name: str, pool: SystemPoolPlan, context: NodePoolContext
) -> gcp.container.NodePool:
    return gcp.container.NodePool(
        f"{name}-{pool.name}",
        name=pool.name,
        cluster=context.cluster_id,
        network_config=context.network_config(),
        node_locations=list(pool.zones),
        **_count(pool.nodes, len(pool.zones)),
        management=gcp.container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True),
        node_config=gcp.container.NodePoolNodeConfigArgs(
            machine_type=pool.machine_type,
            labels=dict(SYSTEM_LABELS),
            boot_disk_kms_key=context.kms_key,
            # The controller and the add-ons have images for both architectures.
            taint_config=without_arm_taint(pool.machine),
            service_account=context.account.email,
            oauth_scopes=list(SCOPES),
            workload_metadata_config=gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
                mode="GKE_METADATA"
            ),
        ),
        opts=_options(context, pool.nodes),
    )


def gpu_pool(
    name: str, pool: GkePoolPlan, context: NodePoolContext, *, depends_on: Sequence[pulumi.Resource]
) -> gcp.container.NodePool:
    """A planned pool. GKE adds the taint nvidia.com/gpu if a pool without GPUs exists.

    depends_on: the pool without GPUs, if the stack creates it.
    """
    return gcp.container.NodePool(
        f"{name}-{pool.name}",
        name=pool.name,
        cluster=context.cluster_id,
        network_config=context.network_config(
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
        placement_policy=_placement(pool),
        queued_provisioning=(
            gcp.container.NodePoolQueuedProvisioningArgs(enabled=True)
            if isinstance(pool.settings.capacity, Queued)
            else None
        ),
        node_config=gpu_node_config(pool, context),
        # The name is fixed, so the old pool is deleted before the new one is created.
        opts=pulumi.ResourceOptions.merge(
            _options(context, pool.nodes, *depends_on),
            pulumi.ResourceOptions(
                delete_before_replace=True, replace_on_changes=list(REPLACE_ON_CHANGES)
            ),
        ),
    )


def _options(
    context: NodePoolContext, nodes: NodeCount, *depends_on: pulumi.Resource
) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(
        parent=context.parent,
        depends_on=[*context.node_dependencies, *depends_on],
        ignore_changes=[
            # An imported pool has the cluster's name here instead of its path. The difference would
            # replace the pool. Source: resource_container_node_pool.go, the importer.
            "cluster",
            # The autoscaler changes the count. The initial one is used at creation only, and
            # changing it would replace the pool.
            *(("initialNodeCount", "nodeCount") if nodes.autoscaled else ()),
        ],
        replace_with=[context.cluster],
    )


def _count(nodes: NodeCount, zones: int, location_policy: str | None = None) -> dict[str, object]:
    """GKE's form of the counts: a fixed number per zone, or autoscaled limits over all zones."""
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


def _placement(pool: GkePoolPlan) -> gcp.container.NodePoolPlacementPolicyArgs | None:
    if pool.settings.placement != "compact":
        return None
    return gcp.container.NodePoolPlacementPolicyArgs(
        type="COMPACT", policy_name=pool.settings.placement_policy
    )


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
            batch = NodeLimit.of(upgrade.batch_nodes)
            return gcp.container.NodePoolUpgradeSettingsArgs(
                strategy="BLUE_GREEN",
                blue_green_settings=gcp.container.NodePoolUpgradeSettingsBlueGreenSettingsArgs(
                    standard_rollout_policy=batches(
                        batch_node_count=batch.count,
                        batch_percentage=batch.fraction,
                        batch_soak_duration=f"{upgrade.batch_soak_minutes * 60}s",
                    ),
                    node_pool_soak_duration=f"{upgrade.soak_minutes * 60}s",
                ),
            )
