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
)

WRONG_REQUESTS = (*NETWORK, *TEMPLATES, *ROLES, *REGIONS)
