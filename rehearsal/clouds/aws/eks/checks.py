"""What EKS refuses of a node group although its API model allows it, and what it fails at later.

Sources: the EKS user guide, "Customize managed nodes with launch templates", and the EKS API
reference (Issue, CreateCluster, CreateNodegroup); messages as reported in public issues:
hashicorp/terraform-provider-aws #18025, #18310, eksctl-io/eksctl #4007.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.bottlerocket_data import (
    bottlerocket_gpus,
    is_bottlerocket,
)
from slicewright.rehearsal.clouds.aws.ec2.launch_templates import (
    find_template,
    resolved_version,
    template_data,
)
from slicewright.rehearsal.clouds.aws.ec2.route_tables import way_out
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.ec2.user_data import BadUserData, node_config
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import attached, find_role, known_role, trusts
from slicewright.rehearsal.clouds.aws.machines import machines
from slicewright.rehearsal.clouds.aws.zones import zone_ids, zones_with
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.node_object import KUBERNETES
from slicewright.rehearsal.clouds.core.taints import taint_id

VERSIONS = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36")


AMI_RELEASE = "20260714"
"""The newest release of EKS's AMIs. Source: awslabs/amazon-eks-ami, v20260714."""


def refused(message: str) -> CloudError:
    return aws_error("InvalidRequestException", message)


def invalid(message: str) -> CloudError:
    return aws_error("InvalidParameterException", message)


def check_nodegroup(
    context: Context, region: str, cluster: JsonObject, body: JsonObject
) -> JsonObject:
    """The launch template's data. Raises CloudError for what EKS refuses at once."""
    _check_role(context, body["nodeRole"])
    subnets = [subnet_of(context, region, i) for i in body["subnets"]]
    check_single_vpc(subnets)
    if subnets and subnets[0]["VpcId"] != cluster["resourcesVpcConfig"]["vpcId"]:
        raise invalid("Subnets are not in the VPC of the cluster")
    template = check_launch_template(
        context,
        region,
        body,
        bottlerocket=is_bottlerocket(body.get("amiType")),
    )
    types = body.get("instanceTypes") or []
    if types and template.get("InstanceType"):
        # terraform-aws-modules/terraform-aws-eks #1545
        raise refused("Cannot specify instance types in launch template and API request")
    types = types or [template.get("InstanceType") or "t3.medium"]
    unknown = [t for t in types if t not in machines()]
    if unknown:
        machine_types = ", ".join(sorted(machines()))
        raise invalid(
            f"The following supplied instance types do not exist: [{', '.join(unknown)}] "
            f"(the rehearsal's cloud knows {machine_types})"
        )
    check_ami(body, template, types)
    _check_offered(context, region, subnets, types)
    check_version(cluster, body)
    check_scaling(body.get("scalingConfig") or {})
    check_update_config(body.get("updateConfig") or {})
    check_repair_config(body.get("nodeRepairConfig") or {})
    check_labels(body.get("labels") or {})
    check_taints(body.get("taints") or [])
    return template


def _check_offered(
    context: Context, region: str, subnets: list[JsonObject], types: list[str]
) -> None:
    """Source: eksctl-io/eksctl #6461, awslabs/ec2-spot-workshops #154."""
    names = zone_ids(account_of(context), region)
    for instance_type in types:
        offered = zones_with(instance_type, region)
        for subnet in subnets:
            if offered is not None and subnet["AvailabilityZoneId"] not in offered:
                alternatives = sorted(n for n, i in names.items() if i in offered)
                raise refused(
                    f"Your requested instance type ({instance_type}) is not supported in your "
                    f"requested Availability Zone ({subnet['AvailabilityZone']}). Please retry "
                    "your request by not specifying an Availability Zone or choosing "
                    f"{', '.join(alternatives) or 'another region'}."
                )


_BOTTLEROCKET_RELEASE = "1.50.0-5ed15786"
_RELEASE = re.compile(r"(?P<version>\d+\.\d+)\.(?P<patch>\d+)-(?P<date>\d{8})")


def check_version(cluster: JsonObject, body: JsonObject) -> None:
    """Of a new node group. Raises CloudError."""
    version = body.get("version") or cluster["version"]
    if version != cluster["version"]:
        raise invalid(
            f"Requested Nodegroup version {version} is invalid: the cluster's version is "
            f"{cluster['version']}"
        )
    check_release(version, body.get("releaseVersion"), body.get("amiType"))


def check_release(version: str, release: str | None, ami: str | None) -> None:
    """Sources: eksctl-io/eksctl #7976, hashicorp/terraform-provider-aws #14492."""
    if not release or is_bottlerocket(ami) or (ami or "").startswith("WINDOWS"):
        # Their release versions do not name the Kubernetes version.
        return
    parts = _RELEASE.fullmatch(release)
    if parts and parts["version"] != version:
        raise invalid(
            f"Requested release version {release} is not valid for kubernetes version {version}."
        )
    if not parts or parts["date"] > AMI_RELEASE:
        raise invalid(
            f"Requested Nodegroup release version {release} is invalid. Allowed release version "
            f"is {default_release(version)}"
        )


def default_release(version: str, ami: str | None = None) -> str:
    """Of Bottlerocket it is not named after Kubernetes, but after its own version and commit."""
    if is_bottlerocket(ami):
        return _BOTTLEROCKET_RELEASE
    return f"{kubelet_version(version).partition('-')[0]}-{AMI_RELEASE}"


def kubelet_version(version: str) -> str:
    """The patch release in the simulated AMI of this Kubernetes minor version."""
    patch = KUBERNETES if KUBERNETES.startswith(f"{version}.") else f"{version}.5"
    return f"{patch}-eks-a1b2c3d"


def check_launch_template(
    context: Context, region: str, body: JsonObject, *, bottlerocket: bool = False
) -> JsonObject:
    """The template's data; {} without a template. Raises CloudError for fields it excludes."""
    requested = body.get("launchTemplate")
    block = body.get("capacityType") == "CAPACITY_BLOCK"
    if not requested:
        if block:
            # EKS user guide, managed node groups with capacity blocks; its wording is not known.
            raise invalid("Managed node groups with capacity blocks need a launch template.")
        return {}
    if bool(requested.get("id")) == bool(requested.get("name")):
        raise invalid(
            "You must specify either launch template id or launch template name, not both"
        )
    try:
        _, template = find_template(
            context.store, region, requested.get("id"), requested.get("name")
        )
        data = template_data(template, str(requested.get("version", "$Default")))
    except CloudError as e:
        raise invalid(e.message) from None
    for field, title in (
        ("diskSize", "Disk size"),
        ("remoteAccess", "Remote access configuration"),
    ):
        if body.get(field) is not None:
            raise invalid(f"{title} must be specified within the launch template.")
    for field in ("NetworkInterfaces", "IamInstanceProfile", "InstanceInitiatedShutdownBehavior"):
        without_subnet = field == "NetworkInterfaces" and not any(
            i.get("SubnetId") for i in data.get(field, [])
        )
        if data.get(field) and not without_subnet:
            raise invalid(
                f"Launch template should not specify {field}"
                + (" with a subnet" if field == "NetworkInterfaces" else "")
            )
    market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
    if block and market != "capacity-block":
        raise invalid("The launch template must have the market type capacity-block.")
    if market == "spot" or (market and not block):
        raise invalid("Instance market options are not supported with the launch template")
    if data.get("ImageId"):
        for field in ("amiType", "version", "releaseVersion"):
            if body.get(field) not in (None, "CUSTOM"):
                raise invalid(
                    f"You cannot specify {field} when the launch template has an image id."
                )
    if bottlerocket:
        try:
            bottlerocket_gpus(data)
        except BadUserData as e:
            # EKS takes it, and the instances never join; refused here so that it is seen.
            raise invalid(f"Instances with this user data would not join: {e}") from None
        return data
    try:
        node_config(data)
    except BadUserData as e:
        raise invalid(
            f"User data was not in the MIME multipart format that node groups need: {e}"
        ) from None
    return data


def check_ami(body: JsonObject, template: JsonObject, types: list[str]) -> None:
    ami = body.get("amiType")
    if ami == "CUSTOM" and not template.get("ImageId"):
        raise invalid("Launch template with an image id is required for amiType CUSTOM")
    architecture = "arm64" if ami and "ARM_64" in ami else "amd64"
    unfit = [t for t in types if machines()[t].architecture != architecture]
    if ami and ami != "CUSTOM" and unfit:
        raise invalid(
            f"[{', '.join(unfit)}] is not a valid instance type for requested amiType {ami}"
        )
    without = [t for t in types if machines()[t].gpu is None]
    if ami and "NVIDIA" in ami and without:
        raise invalid(
            f"[{', '.join(without)}] is not a valid instance type for requested amiType {ami}: it "
            "has no NVIDIA GPU"
        )


def check_scaling(scaling: JsonObject) -> None:
    low, want, high = (
        int(scaling.get(k, d)) for k, d in (("minSize", 1), ("desiredSize", 2), ("maxSize", 2))
    )
    if high < low:
        raise invalid(f"Minimum capacity {low} can't be greater than maximum capacity {high}")
    if want < low:
        raise invalid(f"Minimum capacity {low} can't be greater than desired size {want}")
    if want > high:
        raise invalid(f"Desired capacity {want} can't be greater than max size {high}")


def check_update_config(config: JsonObject) -> None:
    """Source: EKS API reference, NodegroupUpdateConfig: one of the two. Raises CloudError."""
    if {"maxUnavailable", "maxUnavailablePercentage"} <= {*config}:
        raise invalid("Only one of maxUnavailable and maxUnavailablePercentage can be specified")
    if config.get("maxUnavailable", 1) > 100:
        raise invalid("maxUnavailable can be at most 100")


def check_repair_config(config: JsonObject) -> None:
    """Source: EKS API reference, NodeRepairConfig: a count or a percentage. Raises CloudError."""
    for name in ("maxUnhealthyNodeThreshold", "maxParallelNodesRepaired"):
        if {f"{name}Count", f"{name}Percentage"} <= {*config}:
            raise invalid(f"Only one of {name}Count and {name}Percentage can be specified")


def check_labels(labels: JsonObject) -> None:
    for key in labels:
        prefix = key.rpartition("/")[0]
        if prefix in ("kubernetes.io", "k8s.io") or prefix.endswith(
            (".kubernetes.io", ".k8s.io", "eks.amazonaws.com")
        ):
            raise invalid(
                "Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, "
                f"eks.amazonaws.com/]: {key}"
            )


def check_taints(taints: list[JsonObject]) -> None:
    if len(taints) > 50:
        raise invalid(f"Nodegroup has {len(taints)} taints, the maximum is 50")
    keys = set()
    for taint in taints:
        if not taint.get("key") or not taint.get("effect"):
            raise invalid("Taint must have a key and an effect")
        identity = taint_id(taint)
        if identity in keys:
            raise invalid(f"Duplicate taint: key {identity[0]}, effect {identity[1]}")
        keys.add(identity)


class HealthIssue(NamedTuple):
    """Why a node group that EKS accepted lacks nodes."""

    code: str
    """The API's NodegroupIssueCode."""
    message: str

    @property
    def error_code(self) -> str:
        """The API's ErrorCode, which has fewer values."""
        causes = ("NodeCreationFailure", "InsufficientFreeAddresses", "SubnetNotFound")
        return self.code if self.code in causes else "Unknown"

    def api_form(self) -> JsonObject:
        return {"code": self.code, "message": self.message, "resourceIds": []}


def why_nodes_cannot_join(
    context: Context, region: str, nodegroup: JsonObject
) -> HealthIssue | None:
    """The issue that EKS reports after some minutes; None = nodes can join."""
    role = find_role(context, nodegroup["nodeRole"])
    policies = attached(role) if role else set()
    worker = policies & {"AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy"}
    registry = policies & {
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEC2ContainerRegistryReadOnly",
    }
    if role is None or not worker or not registry:
        return HealthIssue(
            "NodeCreationFailure",
            "Instances failed to join the kubernetes cluster: role "
            f"{nodegroup['nodeRole']} lacks AmazonEKSWorkerNodePolicy or "
            "AmazonEC2ContainerRegistryPullOnly (attached: "
            f"{', '.join(sorted(policies)) or 'none'})",
        )
    for identity in nodegroup["subnets"]:
        subnet = find_subnet(context, region, identity)
        if subnet is None:
            return HealthIssue("Ec2SubnetNotFound", f"The subnet ID '{identity}' does not exist")
        out = way_out(context, region, identity)
        if out is None:
            return HealthIssue(
                "NodeCreationFailure",
                f"Instances failed to join the kubernetes cluster: subnet {identity} has "
                "no route to the internet",
            )
        if out == "internet-gateway" and not subnet["MapPublicIpOnLaunch"]:
            return HealthIssue(
                "Ec2SubnetInvalidConfiguration",
                f"One or more Amazon EC2 Subnets of [{identity}] for node group "
                f"{nodegroup['nodegroupName']} does not automatically assign public IP addresses "
                "to instances launched into it. If you want your instances to be assigned a public "
                "IP address, then you need to enable auto-assign public IP address for the subnet.",
            )
    return None


def _check_role(context: Context, arn: str) -> None:
    """CreateNodegroup refuses a role that has not spread yet; the provider does not retry it."""
    role = known_role(context, arn)
    if role is None:
        raise invalid(f"The role with name {arn.rpartition('/')[2]} cannot be found. ({arn})")
    check_trust(role, "ec2.amazonaws.com")


def check_trust(role: JsonObject, service: str) -> None:
    """hashicorp/terraform-provider-aws retries on this message (internal/service/eks/cluster.go).

    Raises CloudError.
    """
    if not trusts(role, service):
        raise invalid(
            f"Role with arn: {role['Arn']}, could not be assumed because it does not exist "
            "or the trusted entity is not correct"
        )


def subnet_of(context: Context, region: str, identity: str) -> JsonObject:
    subnet = find_subnet(context, region, identity)
    if subnet is None:
        raise invalid(f"The subnet ID '{identity}' does not exist")
    return subnet


def check_single_vpc(subnets: list[JsonObject]) -> None:
    vpcs = sorted({s["VpcId"] for s in subnets})
    if len(vpcs) > 1:
        raise invalid(f"Subnets must belong to the same VPC, these are in {', '.join(vpcs)}")


def launch_template_version(context: Context, region: str, requested: JsonObject) -> JsonObject:
    """The node group's launchTemplate as EKS shows it: id, name and version number."""
    _, template = find_template(context.store, region, requested.get("id"), requested.get("name"))
    return {
        "id": template["LaunchTemplateId"],
        "name": template["LaunchTemplateName"],
        "version": resolved_version(template, str(requested.get("version", "$Default"))),
    }
