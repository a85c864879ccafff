"""The data of the launch template version that a node group uses."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.launch_templates import find_template, template_data
from slicewright.rehearsal.clouds.aws.state import NodeGroupRecord
from slicewright.rehearsal.clouds.core.context import Context


def data_of(context: Context, item: NodeGroupRecord) -> JsonObject:
    """{} without a template. Raises CloudError where it has been deleted."""
    template = item["nodegroup"].get("launchTemplate")
    if not template:
        return {}
    _, version = find_template(context.store, item["region"], template["id"], None)
    return template_data(version, template["version"])


def instance_types_of(context: Context, item: NodeGroupRecord) -> list[str]:
    return types_of(item["nodegroup"], data_of(context, item))


def types_of(group: JsonObject, template: JsonObject) -> list[str]:
    """In the order of the request, at least one."""
    return list(group.get("instanceTypes") or [template.get("InstanceType") or "t3.medium"])
