"""The launch template of an EKS node group."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from slicewright.infra import manifests
from slicewright.infra.plan import EksTemplate, ReservedCapacity

_ROOT_DEVICE = "/dev/xvda"
"""The root device of Amazon Linux 2023. Source: EC2 user guide, device names for volumes."""
_BOTTLEROCKET_DATA_DEVICE = "/dev/xvdb"
"""The device for containers and images. The root device holds only the operating system and keeps
its size.
Source: bottlerocket-os/bottlerocket, README, default volumes.
"""
_TAGGED = ("instance", "volume")


def launch_template(
    name: str,
    template: EksTemplate,
    *,
    machine_type: str,
    security_group: pulumi.Input[str],
    placement_group: pulumi.Input[str] | None,
    tags: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> aws.ec2.LaunchTemplate:
    """security_group: the cluster's. EKS gives it to nodes by itself only if the template names no
    network interfaces. placement_group: its name. tags: the tags of the template, not of nodes.
    """
    return aws.ec2.LaunchTemplate(
        name,
        # Then the node group must not have a machine type. Source: EKS user guide, managed node
        # groups with capacity blocks.
        instance_type=machine_type if template.block else None,
        instance_market_options=aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(
            market_type="capacity-block"
        )
        if template.block
        else None,
        capacity_reservation_specification=_reservation(template.reserved),
        block_device_mappings=[_disk(template)],
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled",
            http_tokens="required",
            http_put_response_hop_limit=template.hop_limit,
        ),
        network_interfaces=_network_interfaces(template, security_group),
        placement=aws.ec2.LaunchTemplatePlacementArgs(group_name=placement_group)
        if placement_group is not None
        else None,
        user_data=manifests.eks_user_data(template),
        tag_specifications=_tag_specifications(template),
        tags=dict(tags),
        opts=opts,
    )


def _disk(template: EksTemplate) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=_BOTTLEROCKET_DATA_DEVICE if template.bottlerocket else _ROOT_DEVICE,
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_size=template.disk_gb,
            volume_type="gp3",
            encrypted=_text(template.encrypted),
            kms_key_id=template.kms_key,
            delete_on_termination=_text(True),
        ),
    )


def _network_interfaces(
    template: EksTemplate, security_group: pulumi.Input[str]
) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgs] | None:
    interfaces = [
        aws.ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=interface.card,
            device_index=interface.device,
            interface_type=interface.kind,
            security_groups=[security_group],
            delete_on_termination=_text(True),
        )
        for interface in template.interfaces
    ]
    return interfaces or None


def _tag_specifications(
    template: EksTemplate,
) -> list[aws.ec2.LaunchTemplateTagSpecificationArgs] | None:
    if not template.tags:
        return None
    return [
        aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=dict(template.tags))
        for kind in _TAGGED
    ]


def _reservation(
    capacity: ReservedCapacity | None,
) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if capacity is None:
        return None
    if capacity.reservation is None and capacity.group is None:
        return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
            capacity_reservation_preference="open"
        )
    target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=capacity.reservation,
        capacity_reservation_resource_group_arn=capacity.group,
    )
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_target=target
    )


def _text(value: bool) -> str:
    """The provider's form of a Boolean that may be absent: text."""
    return str(value).lower()
