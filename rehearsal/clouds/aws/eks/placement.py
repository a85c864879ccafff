"""Node groups whose launch template names a placement group: what EC2 refuses of them.

Sources: EC2 user guide, placement groups; aws/aws-parallelcluster #6311 (capacity blocks). How EKS
words what EC2 refuses is not known.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.placement_groups import (
    find_group,
    group_of,
    unknown_group,
)
from slicewright.rehearsal.clouds.aws.eks.checks import invalid, subnet_of
from slicewright.rehearsal.clouds.aws.eks.template_data import types_of
from slicewright.rehearsal.clouds.core.context import Context

_BURSTABLE = ("t2.", "t3.", "t3a.", "t4g.")


def check_placement(context: Context, region: str, group: JsonObject, template: JsonObject) -> None:
    """template: the data of the group's launch template. Raises CloudError."""
    name = group_of(template)
    if name is None:
        return
    if find_group(context, region, name) is None:
        raise invalid(unknown_group(name).message)
    if group.get("capacityType") == "CAPACITY_BLOCK":
        raise invalid("Placement groups are not supported for capacity blocks")
    zones = {subnet_of(context, region, i)["AvailabilityZone"] for i in group["subnets"]}
    if len(zones) > 1:
        raise invalid(
            f"The cluster placement group '{name}' cannot span the Availability Zones "
            f"{', '.join(sorted(zones))}"
        )
    for instance_type in types_of(group, template):
        if instance_type.startswith(_BURSTABLE):
            raise invalid(
                f"Cluster placement groups are not supported by the '{instance_type}' instance "
                "type. Specify a supported instance type or change the placement group strategy, "
                "and try again."
            )
