"""Wrong requests and the error that AWS answers with, each with the public source of the error.

In a request, "$name" stands for something of the world that `test_wrong_requests.py` makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EC2_ERRORS = "EC2 API reference, Error codes"
MODEL = "botocore's service model"
MOTO = "getmoto/moto 5.2.5, moto/ec2/exceptions.py"
IAM_ERRORS = "IAM API reference, errors of the operation"


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A request that AWS refuses."""

    what: str
    service: str
    operation: str
    body: Mapping[str, Any] = field(default_factory=dict)
    error: str
    words: str = ""
    """In the message."""
    status: int = 400
    """HTTP status."""
    region: str = "eu-west-1"
    source: str


def _ec2(what: str, operation: str, error: str, source: str, words: str = "", **body: Any) -> Wrong:
    return Wrong(
        what=what,
        service="ec2",
        operation=operation,
        body=body,
        error=error,
        words=words,
        source=source,
    )


def _iam(
    what: str, operation: str, error: str, words: str = "", status: int = 400, **body: Any
) -> Wrong:
    return Wrong(
        what=what,
        service="aws-iam",
        operation=operation,
        body=body,
        error=error,
        words=words,
        status=status,
        source=IAM_ERRORS,
    )


_TAGS_51 = [{"Key": f"key{n}", "Value": "v"} for n in range(51)]


def _tagged(kind: str, tags: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tags}]


NETWORK: tuple[Wrong, ...] = (
    _ec2("VPC without range", "CreateVpc", "MissingParameter", MOTO, "cidrBlock"),
    _ec2("VPC /8", "CreateVpc", "InvalidVpc.Range", EC2_ERRORS, CidrBlock="10.0.0.0/8"),
    _ec2("VPC /29", "CreateVpc", "InvalidVpc.Range", EC2_ERRORS, CidrBlock="10.0.0.0/29"),
    _ec2("VPC of words", "CreateVpc", "InvalidParameterValue", MOTO, "not a valid CIDR block",
         CidrBlock="ten"),
    _ec2("VPC with a range of IPv6", "CreateVpc", "InvalidParameterValue", MOTO,
         CidrBlock="fd00::/8"),
    _ec2("unknown parameter", "CreateVpc", "UnknownParameter", EC2_ERRORS, "CidrBlok",
         CidrBlok="10.0.0.0/16"),
    _ec2("unknown tenancy", "CreateVpc", "InvalidParameterValue", MODEL,
         CidrBlock="10.0.0.0/16", InstanceTenancy="shared"),
    _ec2("51 tags", "CreateVpc", "TagLimitExceeded", EC2_ERRORS,
         CidrBlock="10.0.0.0/16", TagSpecifications=_tagged("vpc", _TAGS_51)),
    _ec2("a tag of aws:", "CreateVpc", "InvalidParameterValue", MOTO, "reserved for internal use",
         CidrBlock="10.0.0.0/16",
         TagSpecifications=_tagged("vpc", [{"Key": "aws:x", "Value": "y"}])),
    _ec2("a tag twice", "CreateVpc", "InvalidParameterValue", MOTO, "Duplicate tag key",
         CidrBlock="10.0.0.0/16",
         TagSpecifications=_tagged("vpc", [{"Key": "x", "Value": "1"}] * 2)),
    _ec2("tags for another kind", "CreateVpc", "InvalidParameterValue", MOTO,
         "not a valid taggable resource type", CidrBlock="10.0.0.0/16",
         TagSpecifications=_tagged("subnet", [{"Key": "x", "Value": "1"}])),
    _ec2("VPC unknown", "DescribeVpcs", "InvalidVpcID.NotFound", EC2_ERRORS,
         VpcIds=["vpc-00000000000000000"]),
    _ec2("attributes of an unknown VPC", "ModifyVpcAttribute", "InvalidVpcID.NotFound", EC2_ERRORS,
         VpcId="vpc-00000000000000000", EnableDnsSupport={"Value": True}),
    _ec2("two attributes at once", "ModifyVpcAttribute", "InvalidParameterCombination", EC2_ERRORS,
         VpcId="$vpc", EnableDnsSupport={"Value": True}, EnableDnsHostnames={"Value": True}),
    _ec2("unknown attribute", "DescribeVpcAttribute", "InvalidParameterValue", MODEL,
         VpcId="$vpc", Attribute="enableDns"),
    _ec2("unknown VPC to delete", "DeleteVpc", "InvalidVpcID.NotFound", EC2_ERRORS,
         VpcId="vpc-00000000000000000"),
    _ec2("VPC in use", "DeleteVpc", "DependencyViolation", EC2_ERRORS, "has dependencies",
         VpcId="$vpc"),
    _ec2("subnet without VPC", "CreateSubnet", "MissingParameter", MODEL, "VpcId",
         CidrBlock="10.0.7.0/24"),
    _ec2("subnet without range", "CreateSubnet", "MissingParameter", MOTO, "cidrBlock",
         VpcId="$vpc"),
    _ec2("subnet of an unknown VPC", "CreateSubnet", "InvalidVpcID.NotFound", EC2_ERRORS,
         VpcId="vpc-00000000000000000", CidrBlock="10.0.7.0/24"),
    _ec2("subnet /29", "CreateSubnet", "InvalidSubnet.Range", EC2_ERRORS,
         VpcId="$vpc", CidrBlock="10.0.7.0/29"),
    _ec2("subnet outside of its VPC", "CreateSubnet", "InvalidSubnet.Range", EC2_ERRORS,
         VpcId="$vpc", CidrBlock="10.9.0.0/24"),
    _ec2("subnet on another", "CreateSubnet", "InvalidSubnet.Conflict", EC2_ERRORS,
         "conflicts with another subnet", VpcId="$vpc", CidrBlock="10.0.0.128/25"),
    _ec2("subnet of words", "CreateSubnet", "InvalidParameterValue", MOTO, "not a valid CIDR block",
         VpcId="$vpc", CidrBlock="10.0.0/24"),
    _ec2("zone of another region", "CreateSubnet", "InvalidParameterValue", MOTO,
         "Subnets can currently only be created in the following availability zones",
         VpcId="$vpc", CidrBlock="10.0.7.0/24", AvailabilityZone="us-east-1a"),
    _ec2("zone that the region lacks", "CreateSubnet", "InvalidParameterValue", MOTO,
         "eu-west-1a, eu-west-1b, eu-west-1c", VpcId="$vpc", CidrBlock="10.0.7.0/24",
         AvailabilityZone="eu-west-1f"),
    _ec2("zone id that the region lacks", "CreateSubnet", "InvalidParameterValue", MOTO,
         "availabilityZoneId", VpcId="$vpc", CidrBlock="10.0.7.0/24",
         AvailabilityZoneId="euw1-az9"),
    _ec2("subnet unknown", "DescribeSubnets", "InvalidSubnetID.NotFound", EC2_ERRORS,
         SubnetIds=["subnet-00000000000000000"]),
    _ec2("unknown subnet to modify", "ModifySubnetAttribute", "InvalidSubnetID.NotFound",
         EC2_ERRORS, SubnetId="subnet-00000000000000000", MapPublicIpOnLaunch={"Value": True}),
    _ec2("unknown subnet to delete", "DeleteSubnet", "InvalidSubnetID.NotFound", EC2_ERRORS,
         SubnetId="subnet-00000000000000000"),
    _ec2("subnet in use", "DeleteSubnet", "DependencyViolation", EC2_ERRORS, "has dependencies",
         SubnetId="$subnet"),
    _ec2("zone unknown", "DescribeAvailabilityZones", "InvalidParameterValue", MOTO,
         "Invalid availability zone", ZoneNames=["eu-west-1z"]),
    _ec2("offerings by an unknown filter", "DescribeInstanceTypeOfferings", "InvalidParameterValue",
         EC2_ERRORS, Filters=[{"Name": "zone", "Values": ["eu-west-1a"]}]),
    _ec2("offerings of an unknown kind", "DescribeInstanceTypeOfferings", "InvalidParameterValue",
         MODEL, LocationType="zone"),
    _ec2("gateway unknown", "AttachInternetGateway", "InvalidInternetGatewayID.NotFound",
         EC2_ERRORS, InternetGatewayId="igw-00000000000000000", VpcId="$vpc"),
    _ec2("gateway attached twice", "AttachInternetGateway", "Resource.AlreadyAssociated",
         EC2_ERRORS, InternetGatewayId="$gateway", VpcId="$vpc"),
    _ec2("second gateway of a VPC", "AttachInternetGateway", "InvalidParameterValue", MOTO,
         InternetGatewayId="$spare_gateway", VpcId="$vpc"),
    _ec2("gateway not attached", "DetachInternetGateway", "Gateway.NotAttached", EC2_ERRORS,
         InternetGatewayId="$spare_gateway", VpcId="$vpc"),
    _ec2("attached gateway", "DeleteInternetGateway", "DependencyViolation", EC2_ERRORS,
         InternetGatewayId="$gateway"),
    _ec2("table of an unknown VPC", "CreateRouteTable", "InvalidVpcID.NotFound", EC2_ERRORS,
         VpcId="vpc-00000000000000000"),
    _ec2("table unknown", "DescribeRouteTables", "InvalidRouteTableID.NotFound", EC2_ERRORS,
         RouteTableIds=["rtb-00000000000000000"]),
    _ec2("route without destination", "CreateRoute", "MissingParameter", MOTO,
         "destinationCidrBlock", RouteTableId="$table", GatewayId="$gateway"),
    _ec2("route of words", "CreateRoute", "InvalidParameterValue", MOTO, "not a valid CIDR block",
         RouteTableId="$table", GatewayId="$gateway", DestinationCidrBlock="everywhere"),
    _ec2("route twice", "CreateRoute", "RouteAlreadyExists", EC2_ERRORS,
         RouteTableId="$table", GatewayId="$gateway", DestinationCidrBlock="0.0.0.0/0"),
    _ec2("route to an unknown gateway", "CreateRoute", "InvalidInternetGatewayID.NotFound",
         EC2_ERRORS, RouteTableId="$table", GatewayId="igw-00000000000000000",
         DestinationCidrBlock="1.0.0.0/8"),
    _ec2("route to a gateway of elsewhere", "CreateRoute", "InvalidParameterValue", MOTO,
         "belong to different networks", RouteTableId="$table", GatewayId="$spare_gateway",
         DestinationCidrBlock="1.0.0.0/8"),
    _ec2("route to an unknown NAT gateway", "CreateRoute", "NatGatewayNotFound",
         "botocore's waiters of EC2", RouteTableId="$table", DestinationCidrBlock="10.8.0.0/16",
         NatGatewayId="nat-00000000000000000"),
    _ec2("no such route to replace", "ReplaceRoute", "InvalidParameterValue", EC2_ERRORS,
         "There is no route defined", RouteTableId="$table", DestinationCidrBlock="10.8.0.0/16",
         GatewayId="$gateway"),
    _ec2("NAT gateway without address", "CreateNatGateway", "MissingParameter", EC2_ERRORS,
         "AllocationId", SubnetId="$subnet"),
    _ec2("NAT gateway in an unknown subnet", "CreateNatGateway", "InvalidSubnetID.NotFound",
         EC2_ERRORS, SubnetId="subnet-00000000000000000", AllocationId="$address"),
    _ec2("NAT gateway with tags for another kind", "CreateNatGateway", "InvalidParameterValue",
         MOTO, "not a valid taggable resource type", SubnetId="$subnet", AllocationId="$address",
         TagSpecifications=_tagged("subnet", [{"Key": "x", "Value": "1"}])),
    _ec2("unknown NAT gateway", "DescribeNatGateways", "NatGatewayNotFound",
         "botocore's waiters of EC2", NatGatewayIds=["nat-00000000000000000"]),
    _ec2("unknown NAT gateway to delete", "DeleteNatGateway", "NatGatewayNotFound",
         "botocore's waiters of EC2", NatGatewayId="nat-00000000000000000"),
    _ec2("unknown address", "DescribeAddresses", "InvalidAllocationID.NotFound", EC2_ERRORS,
         AllocationIds=["eipalloc-00000000000000000"]),
    _ec2("address in use", "ReleaseAddress", "InvalidIPAddress.InUse", EC2_ERRORS, "is in use",
         AllocationId="$address"),
    _ec2("a subnet with a NAT gateway", "DeleteSubnet", "DependencyViolation", EC2_ERRORS,
         "has dependencies", SubnetId="$third_subnet"),
    _ec2("no such route", "DeleteRoute", "InvalidRoute.NotFound", EC2_ERRORS,
         RouteTableId="$table", DestinationCidrBlock="1.0.0.0/8"),
    _ec2("the local route", "DeleteRoute", "InvalidParameterValue", MOTO,
         "cannot remove local route", RouteTableId="$table", DestinationCidrBlock="10.0.0.0/16"),
    _ec2("table associated with nothing", "AssociateRouteTable", "MissingParameter", MOTO,
         RouteTableId="$table"),
    _ec2("subnet associated twice", "AssociateRouteTable", "Resource.AlreadyAssociated", EC2_ERRORS,
         RouteTableId="$table", SubnetId="$subnet"),
    _ec2("association unknown", "DisassociateRouteTable", "InvalidAssociationID.NotFound",
         EC2_ERRORS, AssociationId="rtbassoc-00000000000000000"),
    _ec2("unknown association to replace", "ReplaceRouteTableAssociation",
         "InvalidAssociationID.NotFound", EC2_ERRORS, RouteTableId="$table",
         AssociationId="rtbassoc-00000000000000000"),
    _ec2("table in use", "DeleteRouteTable", "DependencyViolation", EC2_ERRORS,
         RouteTableId="$table"),
    _ec2("tags of an unknown VPC", "CreateTags", "InvalidVpcID.NotFound", EC2_ERRORS,
         Resources=["vpc-00000000000000000"], Tags=[{"Key": "a", "Value": "b"}]),
    _ec2("tags of an unknown template", "CreateTags", "InvalidLaunchTemplateId.NotFound",
         EC2_ERRORS, Resources=["lt-00000000000000000"], Tags=[{"Key": "a", "Value": "b"}]),
    _ec2("tags of no resource", "CreateTags", "InvalidID", EC2_ERRORS,
         Resources=["thing"], Tags=[{"Key": "a", "Value": "b"}]),
    _ec2("a 51st tag", "CreateTags", "TagLimitExceeded", EC2_ERRORS,
         Resources=["$vpc"], Tags=_TAGS_51),
)  # fmt: skip

TEMPLATES: tuple[Wrong, ...] = (
    _ec2("template without data", "CreateLaunchTemplate", "MissingParameter", MODEL,
         LaunchTemplateName="other"),
    _ec2("template with empty data", "CreateLaunchTemplate", "MissingParameter", MOTO,
         LaunchTemplateName="other", LaunchTemplateData={}),
    _ec2("template's name taken", "CreateLaunchTemplate",
         "InvalidLaunchTemplateName.AlreadyExistsException", EC2_ERRORS,
         LaunchTemplateName="template", LaunchTemplateData={"InstanceType": "m6i.large"}),
    _ec2("template's name of wrong characters", "CreateLaunchTemplate",
         "InvalidLaunchTemplateName.MalformedException", EC2_ERRORS,
         LaunchTemplateName="a template", LaunchTemplateData={"InstanceType": "m6i.large"}),
    _ec2("user data that is not base64", "CreateLaunchTemplate", "InvalidUserData.Malformed",
         EC2_ERRORS, "BASE64", LaunchTemplateName="other", LaunchTemplateData={"UserData": "%"}),
    _ec2("user data above 16 KB", "CreateLaunchTemplate", "InvalidParameterValue",
         "EC2 user guide, instance user data", "16384", LaunchTemplateName="other",
         LaunchTemplateData={"UserData": "QUFB" * 5462}),
    _ec2("unknown member of the data", "CreateLaunchTemplate", "UnknownParameter", EC2_ERRORS,
         "LaunchTemplateData.InstanceTyp", LaunchTemplateName="other",
         LaunchTemplateData={"InstanceTyp": "m6i.large"}),
    _ec2("version of an unknown template", "CreateLaunchTemplateVersion",
         "InvalidLaunchTemplateId.NotFound", EC2_ERRORS, LaunchTemplateId="lt-00000000000000000",
         LaunchTemplateData={"InstanceType": "m6i.large"}),
    _ec2("version of a template without name", "CreateLaunchTemplateVersion", "MissingParameter",
         EC2_ERRORS, LaunchTemplateData={"InstanceType": "m6i.large"}),
    _ec2("id and name of a template", "CreateLaunchTemplateVersion", "InvalidParameterCombination",
         EC2_ERRORS, LaunchTemplateId="$template", LaunchTemplateName="template",
         LaunchTemplateData={"InstanceType": "m6i.large"}),
    _ec2("unknown version of a template", "DescribeLaunchTemplateVersions",
         "InvalidLaunchTemplateId.VersionNotFound", EC2_ERRORS, LaunchTemplateId="$template",
         Versions=["9"]),
    _ec2("unknown version as default", "ModifyLaunchTemplate",
         "InvalidLaunchTemplateId.VersionNotFound", EC2_ERRORS, LaunchTemplateId="$template",
         DefaultVersion="9"),
    _ec2("template of an unknown name", "DeleteLaunchTemplate",
         "InvalidLaunchTemplateName.NotFoundException", EC2_ERRORS, LaunchTemplateName="nothing"),
)  # fmt: skip

ROLES: tuple[Wrong, ...] = (
    _iam("role twice", "CreateRole", "EntityAlreadyExists", status=409, RoleName="node",
         AssumeRolePolicyDocument="$trust"),
    _iam("trust that is no JSON", "CreateRole", "MalformedPolicyDocument", RoleName="r",
         AssumeRolePolicyDocument="{"),
    _iam("trust without statement", "CreateRole", "MalformedPolicyDocument", RoleName="r",
         AssumeRolePolicyDocument="{}"),
    _iam("role's name above 64", "CreateRole", "ValidationError", RoleName="r" * 65,
         AssumeRolePolicyDocument="$trust"),
    _iam("role's name of wrong characters", "CreateRole", "ValidationError", RoleName="a role",
         AssumeRolePolicyDocument="$trust"),
    _iam("session of a minute", "CreateRole", "ValidationError", RoleName="r",
         AssumeRolePolicyDocument="$trust", MaxSessionDuration=60),
    _iam("51 tags of a role", "CreateRole", "ValidationError", RoleName="r",
         AssumeRolePolicyDocument="$trust", Tags=_TAGS_51),
    _iam("unknown role", "GetRole", "NoSuchEntity", status=404, RoleName="nobody"),
    _iam("unknown policy", "AttachRolePolicy", "NoSuchEntity", status=404, RoleName="node",
         PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicie"),
    _iam("policy of an unknown role", "AttachRolePolicy", "NoSuchEntity", status=404,
         RoleName="nobody", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"),
    _iam("policy not attached", "DetachRolePolicy", "NoSuchEntity", status=404, RoleName="node",
         PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"),
    _iam("role with policies", "DeleteRole", "DeleteConflict", "detach all policies", status=409,
         RoleName="node"),
    _iam("trust of an unknown role", "UpdateAssumeRolePolicy", "NoSuchEntity", status=404,
         RoleName="nobody", PolicyDocument="$trust"),
)  # fmt: skip

EKS_API = "EKS API reference"
INVALID = "InvalidParameterException"
VALIDATION = "ValidationException"


def _cluster(what: str, error: str, source: str, words: str = "", **changes: Any) -> Wrong:
    """A CreateCluster that is right but for the changes."""
    body: dict[str, Any] = {
        "name": "other",
        "roleArn": "$cluster_role",
        "resourcesVpcConfig": {"subnetIds": ["$subnet", "$other_subnet"]},
    }
    return _eks(what, "CreateCluster", error, source, words, **(body | changes))


def _group(what: str, error: str, source: str, words: str = "", **changes: Any) -> Wrong:
    """A CreateNodegroup that is right but for the changes."""
    body: dict[str, Any] = {
        "clusterName": "p4d",
        "nodegroupName": "other",
        "nodeRole": "$node_role",
        "subnets": ["$subnet"],
    }
    return _eks(what, "CreateNodegroup", error, source, words, **(body | changes))


def _config(what: str, error: str, source: str, words: str = "", **changes: Any) -> Wrong:
    return _eks(what, "UpdateClusterConfig", error, source, words, name="p4d", **changes)


def _group_config(what: str, error: str, source: str, words: str = "", **changes: Any) -> Wrong:
    where = {"clusterName": "p4d", "nodegroupName": "workers"}
    return _eks(what, "UpdateNodegroupConfig", error, source, words, **where, **changes)


def _group_version(what: str, error: str, source: str, words: str = "", **changes: Any) -> Wrong:
    where = {"clusterName": "p4d", "nodegroupName": "workers"}
    return _eks(what, "UpdateNodegroupVersion", error, source, words, **where, **changes)


def _eks(what: str, operation: str, error: str, source: str, words: str = "", **body: Any) -> Wrong:
    status = {
        "ResourceInUseException": 409,
        "ResourceNotFoundException": 404,
        "NotFoundException": 404,
    }.get(error, 400)
    return Wrong(
        what=what,
        service="eks",
        operation=operation,
        body=body,
        error=error,
        words=words,
        status=status,
        source=source,
    )


CLUSTER: tuple[Wrong, ...] = (
    _cluster("cluster twice", "ResourceInUseException", EKS_API, "already exists", name="p4d"),
    _cluster("cluster's name", VALIDATION, MODEL, name="-other"),
    _cluster("cluster of 1.20", INVALID, "rancher/rancher #27777", "unsupported Kubernetes version",
             version="1.20"),
    _cluster("cluster of a word", INVALID, "rancher/rancher #27777", version="latest"),
    _cluster("cluster in one zone", INVALID, "awsdocs/amazon-eks-user-guide #795",
             "at least two different AZs", resourcesVpcConfig={"subnetIds": ["$subnet"]}),
    _cluster("cluster in an unknown subnet", INVALID, EKS_API, "does not exist",
             resourcesVpcConfig={"subnetIds": ["$subnet", "subnet-00000000000000000"]}),
    _cluster("cluster of an unknown role", INVALID, "terraform-provider-aws, eks/cluster.go",
             "does not exist", roleArn="arn:aws:iam::123456789012:role/nobody"),
    _cluster("cluster of a role for nodes", INVALID, "terraform-provider-aws, eks/cluster.go",
             "trusted entity is not correct", roleArn="$node_role"),
    _cluster("cluster role without its policy", INVALID, "terraform-provider-aws, eks/cluster.go",
             "doesn't have the Amazon EKS Managed Policies", roleArn="$bare_role"),
    _cluster("cluster without an endpoint", INVALID, EKS_API, resourcesVpcConfig={
        "subnetIds": ["$subnet", "$other_subnet"], "endpointPublicAccess": False}),
    _cluster("private range as public", INVALID, EKS_API, "not allowed in publicAccessCidrs",
             resourcesVpcConfig={"subnetIds": ["$subnet", "$other_subnet"],
                                 "publicAccessCidrs": ["10.0.0.0/8"]}),
    _cluster("range of words", INVALID, "aws/aws-cdk #33176", "publicAccessCidrs",
             resourcesVpcConfig={"subnetIds": ["$subnet", "$other_subnet"],
                                 "publicAccessCidrs": ["home"]}),
    _cluster("services in the VPC's range", INVALID, EKS_API, "overlaps",
             kubernetesNetworkConfig={"serviceIpv4Cidr": "10.0.0.0/20"}),
    _cluster("services in a public range", INVALID, EKS_API,
             kubernetesNetworkConfig={"serviceIpv4Cidr": "8.8.0.0/16"}),
    _cluster("services in a /8", INVALID, EKS_API,
             kubernetesNetworkConfig={"serviceIpv4Cidr": "10.0.0.0/8"}),
    _cluster("creator without rights under CONFIG_MAP", INVALID,
             "terraform-aws-modules/terraform-aws-eks #3206", "must be true",
             accessConfig={"authenticationMode": "CONFIG_MAP",
                           "bootstrapClusterCreatorAdminPermissions": False}),
    _cluster("authentication mode unknown", VALIDATION, MODEL, "enum value set",
             accessConfig={"authenticationMode": "ENTRIES"}),
    _cluster("key that is none", INVALID, EKS_API, "keyArn", encryptionConfig=[
        {"resources": ["secrets"], "provider": {"keyArn": "key"}}]),
    _cluster("key of another region", INVALID, EKS_API, "keyArn", encryptionConfig=[
        {"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:us-east-2:1:key/a"}}]),
    _cluster("encryption of pods", INVALID, EKS_API, "secrets", encryptionConfig=[
        {"resources": ["pods"], "provider": {"keyArn": "arn:aws:kms:eu-west-1:1:key/a"}}]),
    _cluster("51 tags of a cluster", VALIDATION, MODEL,
             tags={f"key{n}": "v" for n in range(51)}),
    _cluster("cluster's unknown member", INVALID, MODEL, "Unknown parameter", subnets=["$subnet"]),
    _eks("unknown cluster", "DescribeCluster", "ResourceNotFoundException", EKS_API,
         "No cluster found for name: other", name="other"),
    _eks("unknown cluster to delete", "DeleteCluster", "ResourceNotFoundException", EKS_API,
         name="other"),
    _eks("cluster with node groups", "DeleteCluster", "ResourceInUseException", EKS_API,
         "nodegroups attached", name="p4d"),
    _config("no update", INVALID, "aws/aws-cli #4072", "Invalid type for cluster update"),
    _config("two updates", INVALID, "kubernetes-sigs/cluster-api-provider-aws #3553",
            "Only one type of update", resourcesVpcConfig={"endpointPrivateAccess": True},
            logging={"clusterLogging": [{"types": ["api"], "enabled": True}]}),
    _config("endpoint and subnets", INVALID, "kubernetes-sigs/cluster-api-provider-aws #3553",
            "Only one type of update", resourcesVpcConfig={
                "endpointPrivateAccess": True, "subnetIds": ["$subnet", "$other_subnet"]}),
    _config("endpoint as it is", INVALID, "eksctl-io/eksctl #4043",
            "already at the desired configuration", resourcesVpcConfig={
                "endpointPublicAccess": True}),
    _config("endpoint of nobody", INVALID, EKS_API, resourcesVpcConfig={
        "endpointPublicAccess": False}),
    _config("logging as it is", INVALID, "aws-controllers-k8s/eks-controller #29",
            "No changes needed", logging={"clusterLogging": [{"types": ["api"],
                                                              "enabled": False}]}),
    _config("authentication mode as it is", INVALID, "aws/aws-cdk #31032",
            "update from CONFIG_MAP to CONFIG_MAP",
            accessConfig={"authenticationMode": "CONFIG_MAP"}),
    _config("authentication mode by two steps", INVALID, "pulumi/pulumi-eks #1493",
            "update from CONFIG_MAP to API", accessConfig={"authenticationMode": "API"}),
    _config("creator's rights of a cluster that is there", INVALID, MODEL, "Unknown parameter",
            accessConfig={"bootstrapClusterCreatorAdminPermissions": False}),
    _config("subnets of another zone", INVALID, "aws/containers-roadmap #2258",
            "should belong to the exact set of AZs eu-west-1a,eu-west-1b",
            resourcesVpcConfig={"subnetIds": ["$subnet", "$third_subnet"]}),
    _config("subnets as they are", INVALID, "aws-controllers-k8s/eks-controller #119",
            resourcesVpcConfig={"subnetIds": ["$other_subnet", "$subnet"]}),
    _config("upgrade policy as it is", INVALID, EKS_API,
            upgradePolicy={"supportType": "EXTENDED"}),
    _eks("version backward", "UpdateClusterVersion", INVALID, "EKS user guide, update a cluster",
         "from 1.36 to 1.35", name="p4d", version="1.35"),
    _eks("version unknown", "UpdateClusterVersion", INVALID, "EKS user guide, update a cluster",
         name="p4d", version="9.9"),
    _eks("encryption of an unknown cluster", "AssociateEncryptionConfig",
         "ResourceNotFoundException", EKS_API, clusterName="other", encryptionConfig=[]),
    _eks("unknown update", "DescribeUpdate", "ResourceNotFoundException", EKS_API,
         name="p4d", updateId="0"),
    _eks("tags of nothing", "TagResource", "NotFoundException", EKS_API,
         resourceArn="arn:aws:eks:eu-west-1:123456789012:cluster/other", tags={"a": "b"}),
)  # fmt: skip

GROUP: tuple[Wrong, ...] = (
    _group("group twice", "ResourceInUseException", EKS_API, "already exists",
           nodegroupName="workers"),
    _group("group of an unknown cluster", "ResourceNotFoundException", EKS_API,
           clusterName="other"),
    _group("group of an unknown role", INVALID, EKS_API, "cannot be found",
           nodeRole="arn:aws:iam::123456789012:role/nobody"),
    _group("group of the cluster's role", INVALID, EKS_API, "trusted entity is not correct",
           nodeRole="$cluster_role"),
    _group("group in an unknown subnet", INVALID, EKS_API, "does not exist",
           subnets=["subnet-00000000000000000"]),
    _group("type unknown", INVALID, EKS_API, "do not exist: [p9.huge]", instanceTypes=["p9.huge"]),
    _group("type that the zone lacks", "InvalidRequestException", "eksctl-io/eksctl #6461",
           "(p4d.24xlarge) is not supported in your requested Availability Zone (eu-west-1b)",
           instanceTypes=["p4d.24xlarge"], subnets=["$other_subnet"]),
    _group("type that one of two zones lacks", "InvalidRequestException", "eksctl-io/eksctl #6461",
           "choosing eu-west-1a", instanceTypes=["p4d.24xlarge"],
           subnets=["$subnet", "$other_subnet"]),
    _group("type that the region lacks", "InvalidRequestException", "eksctl-io/eksctl #6461",
           "is not supported", instanceTypes=["p5.48xlarge"]),
    _group("types in template and request", "InvalidRequestException",
           "terraform-aws-modules/terraform-aws-eks #1545", "Cannot specify instance types",
           instanceTypes=["m6i.large"], launchTemplate={"id": "$template", "version": "1"}),
    _group("two numbers of nodes at a time", INVALID, "EKS API, NodegroupUpdateConfig", "Only one",
           updateConfig={"maxUnavailable": 1, "maxUnavailablePercentage": 50}),
    _group("101 nodes at a time", INVALID, "EKS API, NodegroupUpdateConfig", "at most 100",
           updateConfig={"maxUnavailable": 101}),
    _group("two limits of repair", INVALID, "EKS API, NodeRepairConfig", "Only one",
           nodeRepairConfig={"enabled": True, "maxParallelNodesRepairedCount": 1,
                             "maxParallelNodesRepairedPercentage": 50}),
    _group_config("two limits of repair, later", INVALID, "EKS API, NodeRepairConfig", "Only one",
                  nodeRepairConfig={"maxUnhealthyNodeThresholdCount": 1,
                                    "maxUnhealthyNodeThresholdPercentage": 50}),
    _group("template by id and name", INVALID, EKS_API, "not both",
           launchTemplate={"id": "$template", "name": "template"}),
    _group("template unknown", INVALID, EKS_API, "does not exist",
           launchTemplate={"id": "lt-00000000000000000", "version": "1"}),
    _group("template's version unknown", INVALID, EKS_API, "version 9",
           launchTemplate={"id": "$template", "version": "9"}),
    _group("disk with a template", INVALID, "EKS user guide, launch templates", "Disk size",
           diskSize=50, launchTemplate={"id": "$template", "version": "1"}),
    _group("image of GPUs without GPU", INVALID, EKS_API, "not a valid instance type",
           instanceTypes=["m6i.large"], amiType="AL2023_x86_64_NVIDIA"),
    _group("image of another architecture", INVALID, EKS_API, "not a valid instance type",
           instanceTypes=["g4dn.xlarge"], amiType="AL2023_ARM_64_NVIDIA"),
    _group("own image without one", INVALID, EKS_API, "image id", amiType="CUSTOM"),
    _group("image unknown", VALIDATION, MODEL, "enum value set", amiType="AL2023_NVIDIA"),
    _group("capacity unknown", VALIDATION, MODEL, capacityType="FLEX"),
    _group("group older than its cluster", INVALID, EKS_API, "1.35", version="1.35"),
    _group("release of another minor", INVALID, "eksctl-io/eksctl #7976",
           "1.35.5-20260714 is not valid for kubernetes version 1.36",
           releaseVersion="1.35.5-20260714"),
    _group("release of the future", INVALID, "hashicorp/terraform-provider-aws #14492",
           "Allowed release version is 1.36.2-20260714", releaseVersion="1.36.2-20990101"),
    _group("release of words", INVALID, "hashicorp/terraform-provider-aws #14492",
           "Allowed release version", releaseVersion="latest"),
    _group("minimum above desired", INVALID, "hashicorp/terraform-provider-aws #18310",
           "Minimum capacity 2 can't be greater than desired size 1",
           scalingConfig={"minSize": 2, "desiredSize": 1, "maxSize": 3}),
    _group("desired above maximum", INVALID, "hashicorp/terraform-provider-aws #18310",
           "Desired capacity 4 can't be greater than max size 3",
           scalingConfig={"minSize": 1, "desiredSize": 4, "maxSize": 3}),
    _group("maximum zero", VALIDATION, MODEL, scalingConfig={"maxSize": 0}),
    _group("label of EKS", INVALID, "eksctl-io/eksctl #4007", "reserved prefixes",
           labels={"eks.amazonaws.com/pool": "x"}),
    _group("label of Kubernetes", INVALID, "eksctl-io/eksctl #4007", "reserved prefixes",
           labels={"node-role.kubernetes.io/gpu": "x"}),
    _group("label's empty value", VALIDATION, MODEL, labels={"a": ""}),
    _group("label's long key", VALIDATION, MODEL, labels={"k" * 64: "v"}),
    _group("51 taints", INVALID, EKS_API, "50",
           taints=[{"key": f"k{n}", "effect": "NO_SCHEDULE"} for n in range(51)]),
    _group("taint twice", INVALID, EKS_API, "Duplicate taint",
           taints=[{"key": "k", "effect": "NO_SCHEDULE"}] * 2),
    _group("taint in Kubernetes' words", VALIDATION, MODEL, "enum value set",
           taints=[{"key": "k", "effect": "NoSchedule"}]),
    _group("51 tags of a group", VALIDATION, MODEL, tags={f"key{n}": "v" for n in range(51)}),
    _group_config("no change of a group", INVALID, EKS_API),
    _group_config("minimum above what is desired now", INVALID,
                  "terraform-aws-modules/terraform-aws-eks #3683", "can't be greater than desired",
                  scalingConfig={"minSize": 2, "maxSize": 3}),
    _group_config("label of EKS, later", INVALID, "eksctl-io/eksctl #4007", "reserved prefixes",
                  labels={"addOrUpdateLabels": {"eks.amazonaws.com/x": "y"}}),
    _group_config("51 taints, later", INVALID, EKS_API, "50", taints={"addOrUpdateTaints": [
        {"key": f"k{n}", "effect": "NO_SCHEDULE"} for n in range(51)]}),
    _group_version("group newer than its cluster", INVALID, EKS_API, "1.99", version="1.99"),
    _group_version("group back", INVALID, EKS_API, "1.35", version="1.35"),
    _group_version("release of another minor, later", INVALID, "eksctl-io/eksctl #7976",
                   "not valid for kubernetes version", releaseVersion="1.35.5-20260714"),
    _group_version("template of a group without", INVALID, EKS_API, "without one",
                   launchTemplate={"id": "$template", "version": "1"}),
    _eks("unknown group", "DescribeNodegroup", "ResourceNotFoundException", EKS_API,
         clusterName="p4d", nodegroupName="other"),
    _eks("unknown group to delete", "DeleteNodegroup", "ResourceNotFoundException", EKS_API,
         clusterName="p4d", nodegroupName="other"),
)  # fmt: skip

ADDONS: tuple[Wrong, ...] = (
    _eks("add-on twice", "CreateAddon", "ResourceInUseException", EKS_API, "already exists",
         clusterName="p4d", addonName="vpc-cni"),
    _eks("add-on unknown", "CreateAddon", INVALID, "aws/containers-roadmap #1429",
         "specified is not supported", clusterName="p4d", addonName="vpc-cnj"),
    _eks("add-on's version unknown", "CreateAddon", INVALID,
         "hashicorp/terraform-provider-aws #33385", "Addon version specified is not supported",
         clusterName="p4d", addonName="kube-proxy", addonVersion="v9.9.9-eksbuild.1"),
    _eks("add-on's version unknown, later", "UpdateAddon", INVALID,
         "nebari-dev/nebari #3016", "Addon version specified is not supported",
         clusterName="p4d", addonName="vpc-cni", addonVersion="v9.9.9-eksbuild.1"),
    _eks("add-on's settings no object", "CreateAddon", INVALID, "cookpad/terraform-aws-eks #331",
         "Json schema validation failed with error: [$: null found, object expected]",
         clusterName="p4d", addonName="kube-proxy", configurationValues="null"),
    _eks("add-on's setting unknown", "CreateAddon", INVALID, "aws/containers-roadmap #2216",
         "[$.enableNetworkPolicy: is not defined in the schema and the schema does not allow",
         clusterName="p4d", addonName="kube-proxy",
         configurationValues='{"enableNetworkPolicy": "true"}'),
    _eks("add-on's setting of another type, later", "UpdateAddon", INVALID,
         "aws/amazon-vpc-cni-k8s, charts/aws-vpc-cni",
         "[$.enableNetworkPolicy: boolean found, string expected]", clusterName="p4d",
         addonName="vpc-cni", configurationValues='{"enableNetworkPolicy": true}'),
    _eks("add-on not there", "DescribeAddon", "ResourceNotFoundException", EKS_API, "No addon",
         clusterName="p4d", addonName="coredns"),
    _eks("unknown add-on to delete", "DeleteAddon", "ResourceNotFoundException", EKS_API,
         clusterName="p4d", addonName="coredns"),
    _eks("conflicts unknown", "CreateAddon", VALIDATION, MODEL, clusterName="p4d",
         addonName="kube-proxy", resolveConflicts="WIN"),
)  # fmt: skip

REGIONS: tuple[Wrong, ...] = (
    Wrong(
        what="EC2 in an unknown region",
        service="ec2",
        operation="DescribeVpcs",
        error="AuthFailure",
        status=401,
        region="eu-west-9",
        source="AWS account management guide, enable or disable Regions",
    ),
    Wrong(
        what="EKS in an unknown region",
        service="eks",
        operation="ListClusters",
        error="UnrecognizedClientException",
        status=403,
        region="eu-west-9",
        source="AWS account management guide, enable or disable Regions",
    ),
)

WRONG_REQUESTS = (*NETWORK, *TEMPLATES, *ROLES, *CLUSTER, *GROUP, *ADDONS, *REGIONS)
