"""The EC2 instances of node groups, as EC2 describes them.

Source of their tags: EKS user guide, "Tag your Amazon EKS resources", and the Auto Scaling group
that EKS makes, whose instances carry kubernetes.io/cluster/NAME.
"""

from __future__ import annotations

import hashlib

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.instances import RUNNING, cpu_options
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import tag_list
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.eks.template_data import data_of
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS, NodeGroupRecord
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import CloudError


def instance_id(item: NodeGroupRecord, node: str) -> str:
    """A group's ARN is its own, also where an earlier one had its name and its nodes' addresses."""
    seed = f"{item['nodegroup']['nodegroupArn']}/{node}/{item['generation']}"
    return f"i-0{hashlib.sha256(seed.encode()).hexdigest()[:16]}"


def instances_of_groups(context: Context, region: str) -> list[JsonObject]:
    """Without those of groups whose launch template has the type: it is not looked up here."""
    return [
        _instance(context, item, node["name"], node["location"], kind)
        for item in context.store.values(NODE_GROUPS, prefix=f"{region}/")
        for node in item["nodes"]
        for kind in ([node["machine"]] if "machine" in node else first_type(item))
    ]


def _template_tags(context: Context, item: NodeGroupRecord) -> dict[str, str]:
    """The tags that a launch template gives to instances."""
    try:
        data = data_of(context, item)
    except CloudError:  # It has been deleted, and the group's instances run on.
        return {}
    return {
        tag["Key"]: tag["Value"]
        for specification in data.get("TagSpecifications", ())
        if specification["ResourceType"] == "instance"
        for tag in specification["Tags"]
    }


def first_type(item: NodeGroupRecord) -> list[str]:
    types: list[str] = item["nodegroup"]["instanceTypes"][:1]
    return types


def _instance(
    context: Context, item: NodeGroupRecord, node: str, subnet: str, kind: str
) -> JsonObject:
    group, cluster = item["nodegroup"], item["cluster"]
    subnet_record = find_subnet(context, item["region"], subnet) or {}
    spot = group["capacityType"] == "SPOT"
    return {
        "InstanceId": instance_id(item, node),
        "InstanceType": kind,
        "CpuOptions": cpu_options(kind),
        "State": RUNNING,
        "LaunchTime": group["createdAt"],
        "Placement": {"AvailabilityZone": subnet_record.get("AvailabilityZone", "")},
        "PrivateDnsName": node,
        "SubnetId": subnet,
        "VpcId": subnet_record.get("VpcId", ""),
        "Tags": tag_list(
            {
                **_template_tags(context, item),
                "eks:cluster-name": cluster,
                "eks:nodegroup-name": group["nodegroupName"],
                f"kubernetes.io/cluster/{cluster}": "owned",
            }
        ),
        **({"InstanceLifecycle": "spot"} if spot else {}),
    }
