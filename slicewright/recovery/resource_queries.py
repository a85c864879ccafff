"""Resources of AWS whose ID only the account knows: how to look for each, and how to recognise it.

Pure. EC2 sets the tags of the request when it creates a resource (its TagSpecification), so a
resource of a cut-off creation has all tags of its inputs, and one of the program's tags names the
stack. If two resources cannot be distinguished, both are reported and none is taken.

IDs are in the format of an import, because the provider reads resources without outputs in that
way. Sources: "Import" in the documentation of each resource of terraform-provider-aws;
pulumi-terraform-bridge, pkg/tfbridge/provider.go, Read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Inputs = Mapping[str, Any]
Description = Mapping[str, Any]
"""AWS's description of one resource."""


@dataclass(frozen=True, kw_only=True)
class ResourceQuery:
    """One question to an account."""

    urn: str
    region: str
    profile: str | None
    service: str
    operation: str
    """A method of botocore's client. If it can be paginated, all pages are read."""
    right: str
    parameters: Mapping[str, Any] = field(hash=False)
    listed: str
    """The name of the list in the answer."""
    inputs: Inputs = field(hash=False)
    kind: str

    def ids(self, descriptions: Sequence[Description]) -> list[str]:
        """The IDs of the resources that the creation may have created."""
        how = _KINDS[self.kind]
        return [
            how.identity(description, self.inputs)
            for description in descriptions
            if (how.service != "ec2" or _has_tags(description, self.inputs))
            and how.fits(description, self.inputs)
        ]


@dataclass(frozen=True, kw_only=True)
class _How:
    service: str = "ec2"
    operation: str
    listed: str
    identity: Callable[[Description, Inputs], str]
    fits: Callable[[Description, Inputs], bool]
    parameters: Callable[[Inputs], Mapping[str, Any] | None] = lambda inputs: _by_tags(
        "Filters", inputs
    )
    """Returns the parameters, or None if the resource could not be distinguished from others."""


def _same(**pairs: str) -> Callable[[Description, Inputs], bool]:
    """Returns a check that fields of the answer equal the inputs. AWS's name -> Pulumi's name."""
    return lambda description, inputs: all(
        description.get(a) == inputs.get(b) for a, b in pairs.items()
    )


def _free_or_there(description: Description, inputs: Inputs) -> bool:
    """True if it is attached to no other VPC: a second call attaches an internet gateway."""
    attached = {a.get("VpcId") for a in description.get("Attachments") or ()}
    return not attached or attached == {inputs.get("vpcId")}


def _living(description: Description, inputs: Inputs) -> bool:
    return description.get("State") in ("pending", "available") and _same(SubnetId="subnetId")(
        description, inputs
    )


def _field(name: str) -> Callable[[Description, Inputs], str]:
    return lambda description, _: str(description[name])


_KINDS: Final[Mapping[str, _How]] = {
    "aws:ec2/vpc:Vpc": _How(
        operation="describe_vpcs",
        listed="Vpcs",
        identity=_field("VpcId"),
        fits=_same(CidrBlock="cidrBlock"),
    ),
    "aws:ec2/subnet:Subnet": _How(
        operation="describe_subnets",
        listed="Subnets",
        identity=_field("SubnetId"),
        fits=_same(VpcId="vpcId", CidrBlock="cidrBlock"),
    ),
    "aws:ec2/internetGateway:InternetGateway": _How(
        operation="describe_internet_gateways",
        listed="InternetGateways",
        identity=_field("InternetGatewayId"),
        fits=_free_or_there,
    ),
    "aws:ec2/routeTable:RouteTable": _How(
        operation="describe_route_tables",
        listed="RouteTables",
        identity=_field("RouteTableId"),
        fits=_same(VpcId="vpcId"),
    ),
    "aws:ec2/eip:Eip": _How(
        operation="describe_addresses",
        listed="Addresses",
        identity=_field("AllocationId"),
        fits=lambda description, _: "AllocationId" in description,
    ),
    "aws:ec2/natGateway:NatGateway": _How(
        operation="describe_nat_gateways",
        listed="NatGateways",
        identity=_field("NatGatewayId"),
        fits=_living,
        parameters=lambda inputs: _by_tags("Filter", inputs),
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": _How(
        operation="describe_launch_templates",
        listed="LaunchTemplates",
        identity=_field("LaunchTemplateId"),
        fits=_same(LaunchTemplateName="name"),
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _How(
        service="eks",
        operation="list_pod_identity_associations",
        listed="associations",
        identity=lambda description, inputs: (
            f"{inputs['clusterName']},{description['associationId']}"
        ),
        # A service account has only one. Source: EKS API reference, CreatePodIdentityAssociation.
        fits=_same(namespace="namespace", serviceAccount="serviceAccount"),
        parameters=lambda inputs: _picked(inputs, "clusterName", "namespace", "serviceAccount"),
    ),
}


def resource_query(
    resource: Mapping[str, Any], region: str | None, profile: str | None
) -> ResourceQuery | None:
    """Returns the question, or None if the resource cannot be looked for.

    The reasons are an unknown kind, missing tags, or an unknown region. resource: a pending
    creation.
    """
    kind, inputs = str(resource["type"]), resource.get("inputs") or {}
    place = inputs.get("region") or region
    if not place:
        return None
    how = _KINDS.get(kind)
    parameters = how.parameters(inputs) if how is not None else None
    if how is None or parameters is None:
        return None
    return ResourceQuery(
        urn=resource["urn"],
        region=str(place),
        profile=profile,
        service=how.service,
        operation=how.operation,
        right=f"{how.service}:{how.operation.title().replace('_', '')}",
        parameters=parameters,
        listed=how.listed,
        inputs=inputs,
        kind=kind,
    )


def _by_tags(name: str, inputs: Inputs) -> Mapping[str, Any] | None:
    tags = _tags(inputs)
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in sorted(tags.items())]
    return {name: filters} if filters else None


def _picked(inputs: Inputs, *names: str) -> Mapping[str, Any] | None:
    return {name: inputs[name] for name in names} if inputs.keys() >= set(names) else None


def _has_tags(description: Description, inputs: Inputs) -> bool:
    existing = {tag["Key"]: tag["Value"] for tag in description.get("Tags") or ()}
    return _tags(inputs).items() <= existing.items()


def _tags(inputs: Inputs) -> Mapping[str, str]:
    """The tags, including the provider's default tags if the state has them."""
    tags = inputs.get("tagsAll") or inputs.get("tags")
    if not isinstance(tags, Mapping):
        return {}
    return {key: value for key, value in tags.items() if isinstance(value, str) and key[:2] != "__"}
