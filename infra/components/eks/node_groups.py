"""The node groups of an EKS cluster: the system pool's, and the GPU pools'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from slicewright.infra.components import node_counts
from slicewright.infra.components.eks.launch_template import launch_template
from slicewright.infra.components.eks.network import ec2_tags
from slicewright.infra.components.node_limits import NodeLimit
from slicewright.infra.plan import (
    SYSTEM_LABELS,
    EksFleetPlan,
    EksPoolPlan,
    EksTemplate,
    NodeCount,
    Taint,
)
from slicewright.infra.stack_file import EksRepair, EksUpdate


class NodeGroups:
    """Outputs: `system`, and `pools` by name. They are children of `parent`.

    subnet_ids: by zone. depends_on: resources that must exist before the first node.
    """

    system: aws.eks.NodeGroup
    pools: Mapping[str, aws.eks.NodeGroup]

    def __init__(
        self,
        name: str,
        plan: EksFleetPlan,
        *,
        cluster: aws.eks.Cluster,
        role: aws.iam.Role,
        subnet_ids: Mapping[str, Sequence[pulumi.Input[str]]],
        depends_on: Sequence[pulumi.Resource],
        provider: aws.Provider,
        parent: pulumi.Resource,
    ) -> None:
        self._name = name
        self._cluster = cluster
        self._role = role
        self._subnets = subnet_ids
        self._depends_on = depends_on
        self._parent = parent
        self._tags = ec2_tags(plan.cluster, plan.cluster.name)
        self._group_tags = plan.cluster.tags
        self._live = node_counts.live(
            plan.cluster.name,
            {
                plan.system.name: plan.system.nodes,
                **{pool.name: pool.nodes for pool in plan.node_groups},
            },
            provider=provider,
        )
        self.system = self._system_group(plan)
        self.pools = {pool.name: self._gpu_group(pool) for pool in plan.node_groups}

    def _system_group(self, plan: EksFleetPlan) -> aws.eks.NodeGroup:
        scaling, options = self._scaling(plan.system.name, plan.system.nodes, [])
        return aws.eks.NodeGroup(
            f"{self._name}-{plan.system.name}",
            cluster_name=self._cluster.name,
            node_group_name=plan.system.name,
            node_role_arn=self._role.arn,
            subnet_ids=self._subnet_ids(plan.system.zones),
            ami_type=_SYSTEM_AMI[plan.system.machine.architecture],
            # Without it, the nodes would keep the old version after an upgrade of the cluster.
            version=plan.cluster.version,
            instance_types=[plan.system.machine_type],
            scaling_config=scaling,
            labels=dict(SYSTEM_LABELS),
            launch_template=self._template(
                plan.system.name, plan.system.machine_type, plan.system.template
            ),
            tags=dict(self._group_tags) or None,
            opts=options,
        )

    def _gpu_group(self, pool: EksPoolPlan) -> aws.eks.NodeGroup:
        """The node group exactly as planned. It never has the label nvidia.com/mig.config, which
        belongs to the fleet controller.
        """
        scaling, options = self._scaling(pool.name, pool.nodes, [self.system])
        return aws.eks.NodeGroup(
            f"{self._name}-{pool.name}",
            cluster_name=self._cluster.name,
            node_group_name=pool.name,
            node_role_arn=self._role.arn,
            subnet_ids=self._subnet_ids(pool.settings.zones),
            ami_type=pool.settings.ami_type,
            version=pool.settings.version,
            release_version=pool.settings.release_version,
            instance_types=None
            if pool.settings.template and pool.settings.template.block
            else [*pool.settings.machine_types],
            capacity_type=pool.settings.capacity_type,
            disk_size=pool.settings.disk_size_gb,
            scaling_config=scaling,
            labels=dict(pool.labels),
            taints=[_taint(taint) for taint in pool.taints],
            update_config=_update(pool.settings.update),
            node_repair_config=_repair(pool.settings.repair),
            launch_template=self._template(
                pool.name, pool.settings.machine.name, pool.settings.template
            ),
            tags={**self._group_tags, **pool.settings.tags} or None,
            opts=pulumi.ResourceOptions.merge(
                options, pulumi.ResourceOptions(delete_before_replace=True)
            ),
        )

    def _template(
        self, pool: str, machine_type: str, template: EksTemplate | None
    ) -> aws.eks.NodeGroupLaunchTemplateArgs | None:
        """pool: its name."""
        if template is None:
            return None
        created = launch_template(
            f"{self._name}-{pool}",
            template,
            machine_type=machine_type,
            security_group=self._cluster.vpc_config.cluster_security_group_id,
            placement_group=self._placement_group(pool, template),
            tags=self._tags,
            opts=pulumi.ResourceOptions(parent=self._parent),
        )
        return aws.eks.NodeGroupLaunchTemplateArgs(
            id=created.id, version=created.latest_version.apply(str)
        )

    def _placement_group(self, pool: str, template: EksTemplate) -> pulumi.Output[str] | None:
        """Creates the pool's placement group, if it has one. Returns its name."""
        if template.placement is None:
            return None
        group = aws.ec2.PlacementGroup(
            f"{self._name}-{pool}",
            strategy=template.placement,
            tags=dict(self._tags),
            opts=pulumi.ResourceOptions(parent=self._parent),
        )
        name: pulumi.Output[str] = group.name
        return name

    def _subnet_ids(self, zones: Sequence[str]) -> list[pulumi.Input[str]]:
        return [subnet for zone in zones for subnet in self._subnets[zone]]

    def _scaling(
        self, name: str, nodes: NodeCount, depends_on: Sequence[pulumi.Resource]
    ) -> tuple[aws.eks.NodeGroupScalingConfigArgs, pulumi.ResourceOptions]:
        """A node group's counts, and its options."""
        requested = node_counts.requested_size(nodes, self._live.get(name))
        scaling = aws.eks.NodeGroupScalingConfigArgs(
            min_size=requested.scaling.min,
            desired_size=requested.scaling.desired,
            max_size=requested.scaling.max,
        )
        return scaling, pulumi.ResourceOptions(
            parent=self._parent,
            depends_on=[*self._depends_on, *depends_on],
            ignore_changes=["scalingConfig.desiredSize"] if requested.keeps_desired else None,
        )


def _taint(taint: Taint) -> aws.eks.NodeGroupTaintArgs:
    return aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value, effect=taint.cloud_effect)


def _update(update: EksUpdate) -> aws.eks.NodeGroupUpdateConfigArgs:
    limit = NodeLimit.of(update.max_unavailable)
    return aws.eks.NodeGroupUpdateConfigArgs(
        max_unavailable=limit.count,
        max_unavailable_percentage=limit.percentage,
        update_strategy=update.strategy.upper(),
    )


_SYSTEM_AMI: Mapping[str, str] = {
    "amd64": "AL2023_x86_64_STANDARD",
    "arm64": "AL2023_ARM_64_STANDARD",
}
_ACTIONS: Mapping[str, str] = {"replace": "Replace", "reboot": "Reboot", "none": "NoAction"}


def _repair(repair: EksRepair | None) -> aws.eks.NodeGroupNodeRepairConfigArgs | None:
    if repair is None:
        return None
    unhealthy = NodeLimit.of(repair.max_unhealthy)
    parallel = NodeLimit.of(repair.max_parallel)
    return aws.eks.NodeGroupNodeRepairConfigArgs(
        enabled=repair.enabled,
        max_unhealthy_node_threshold_count=unhealthy.count,
        max_unhealthy_node_threshold_percentage=unhealthy.percentage,
        max_parallel_nodes_repaired_count=parallel.count,
        max_parallel_nodes_repaired_percentage=parallel.percentage,
        node_repair_config_overrides=[
            aws.eks.NodeGroupNodeRepairConfigNodeRepairConfigOverrideArgs(
                node_monitoring_condition=rule.condition,
                node_unhealthy_reason=rule.reason,
                min_repair_wait_time_mins=rule.wait_minutes,
                repair_action=_ACTIONS[rule.action],
            )
            for rule in repair.rules
        ]
        or None,
    )
