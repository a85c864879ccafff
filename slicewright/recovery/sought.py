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
Found = Mapping[str, Any]
"""AWS's description of one resource."""


@dataclass(frozen=True, kw_only=True)
class Sought:
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

    def ids(self, found: Sequence[Found]) -> list[str]:
        """The IDs of the resources that the creation may have created."""
        how = _KINDS[self.kind]
        return [
            how.identity(one, self.inputs)
            for one in found
            if (how.service != "ec2" or _has_tags(one, self.inputs)) and how.fits(one, self.inputs)
        ]


@dataclass(frozen=True, kw_only=True)
class _How:
    service: str = "ec2"
    operation: str
    listed: str
    identity: Callable[[Found, Inputs], str]
    fits: Callable[[Found, Inputs], bool]
    asked: Callable[[Inputs], Mapping[str, Any] | None] = lambda inputs: _by_tags("Filters", inputs)
    """Returns the parameters, or None if the resource could not be distinguished from others."""


def _same(**pairs: str) -> Callable[[Found, Inputs], bool]:
    """Returns a check that fields of the answer equal the inputs. AWS's name -> Pulumi's name."""
    return lambda one, inputs: all(one.get(a) == inputs.get(b) for a, b in pairs.items())


def _free_or_there(one: Found, inputs: Inputs) -> bool:
    """True if it is attached to no other VPC: a second call attaches an internet gateway."""
    attached = {a.get("VpcId") for a in one.get("Attachments") or ()}
    return not attached or attached == {inputs.get("vpcId")}


def _living(one: Found, inputs: Inputs) -> bool:
    return one.get("State") in ("pending", "available") and _same(SubnetId="subnetId")(one, inputs)


def _field(name: str) -> Callable[[Found, Inputs], str]:
    return lambda one, _: str(one[name])


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
        fits=lambda one, _: "AllocationId" in one,
    ),
    "aws:ec2/natGateway:NatGateway": _How(
        operation="describe_nat_gateways",
        listed="NatGateways",
        identity=_field("NatGatewayId"),
        fits=_living,
        asked=lambda inputs: _by_tags("Filter", inputs),
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
        identity=lambda one, inputs: f"{inputs['clusterName']},{one['associationId']}",
        # A service account has only one. Source: EKS API reference, CreatePodIdentityAssociation.
        fits=_same(namespace="namespace", serviceAccount="serviceAccount"),
        asked=lambda inputs: _picked(inputs, "clusterName", "namespace", "serviceAccount"),
    ),
}


def sought(resource: Mapping[str, Any], region: str | None, profile: str | None) -> Sought | None:
    """Returns the question, or None if the resource cannot be looked for.

    The reasons are an unknown kind, missing tags, or an unknown region. resource: a pending
    creation.
    """
    kind, inputs = str(resource["type"]), resource.get("inputs") or {}
    place = inputs.get("region") or region
    if not place:
        return None
    how = _KINDS.get(kind)
    parameters = how.asked(inputs) if how is not None else None
    if how is None or parameters is None:
        return None
    return Sought(
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


def _has_tags(one: Found, inputs: Inputs) -> bool:
    there = {tag["Key"]: tag["Value"] for tag in one.get("Tags") or ()}
    return _tags(inputs).items() <= there.items()


def _tags(inputs: Inputs) -> Mapping[str, str]:
    """The tags, including the provider's default tags if the state has them."""
    found = inputs.get("tagsAll") or inputs.get("tags")
    if not isinstance(found, Mapping):
        return {}
    return {
        key: value for key, value in found.items() if isinstance(value, str) and key[:2] != "__"
    }
