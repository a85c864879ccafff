"""What the simulated EC2 checks a request against.

Source: service authorization reference, Amazon EC2; EC2 user guide, grant permission to tag
resources during creation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws import state
from slicewright.rehearsal.clouds.aws.authorization.check import (
    Check,
    by_key,
    request_tags,
    resource_tags,
)
from slicewright.rehearsal.clouds.aws.authorization.iam import pass_role
from slicewright.rehearsal.clouds.core.store import Kind, Store

_MAKES: Final[Mapping[str, str]] = {
    "AllocateAddress": "elastic-ip",
    "CreateInternetGateway": "internet-gateway",
    "CreateLaunchTemplate": "launch-template",
    "CreateNatGateway": "natgateway",
    "CreatePlacementGroup": "placement-group",
    "CreateRouteTable": "route-table",
    "CreateSubnet": "subnet",
    "CreateVpc": "vpc",
    "RunInstances": "instance",
}
"""Operation -> the kind of resource that it makes."""
_KINDS: Final[Mapping[str, tuple[str, Kind[JsonObject]]]] = {
    "eipalloc-": ("elastic-ip", state.ELASTIC_IPS),
    "eni-": ("network-interface", state.NETWORK_INTERFACES),
    "i-": ("instance", state.INSTANCES),
    "igw-": ("internet-gateway", state.INTERNET_GATEWAYS),
    "lt-": ("launch-template", state.LAUNCH_TEMPLATES),
    "nat-": ("natgateway", state.NAT_GATEWAYS),
    "pg-": ("placement-group", state.PLACEMENT_GROUPS),
    "rtb-": ("route-table", state.ROUTE_TABLES),
    "sg-": ("security-group", state.SECURITY_GROUPS),
    "snap-": ("snapshot", state.SNAPSHOTS),
    "subnet-": ("subnet", state.SUBNETS),
    "vol-": ("volume", state.VOLUMES),
    "vpc-": ("vpc", state.VPCS),
}
"""How an id begins -> the kind in ARNs, and where such resources are stored."""
_NOT_CHECKED: Final[Mapping[str, Sequence[str]]] = {
    "CreateLaunchTemplate": ("LaunchTemplateData",),
    "CreateLaunchTemplateVersion": ("LaunchTemplateData",),
    "CreateRoute": ("GatewayId", "NatGatewayId"),
    "ReplaceRoute": ("GatewayId", "NatGatewayId"),
}
"""Operation -> parameters that name a resource against which EC2 does not check it."""


def ec2_checks(
    store: Store, account: str, operation: str, region: str, body: JsonObject
) -> Iterator[Check]:
    action, here = f"ec2:{operation}", {"aws:requestedregion": [region]}
    base = f"arn:aws:ec2:{region}:{account}"
    if operation.startswith("Describe") and operation != "DescribeVpcAttribute":
        yield Check(action=action, arn="*", context=here)
        return
    new = _request_conditions(operation, body)
    checked = False
    for kind, record in _named_resources(store, operation, region, body):
        checked = True
        context = {**here, **resource_tags(by_key(record.get("Tags")))}
        if operation in ("CreateTags", "DeleteTags"):
            context |= request_tags(by_key(body.get("Tags")))
        yield Check(action=action, arn=f"{base}:{kind}/some-id", context=context)
    if operation in _MAKES:
        checked = True
        arn, tags = f"{base}:{_MAKES[operation]}/new", request_tags(new)
        yield Check(action=action, arn=arn, context={**here, **tags})
        if new:
            creation_keys = {**here, **tags, "ec2:createaction": [operation]}
            yield Check(action="ec2:CreateTags", arn=arn, context=creation_keys)
    if not checked:
        yield Check(action=action, arn="*", context=here)
    if profile := body.get("IamInstanceProfile"):
        yield pass_role(_role_of(store, account, profile), "ec2.amazonaws.com")


def _request_conditions(operation: str, body: JsonObject) -> dict[str, str]:
    """The tags that a new resource gets."""
    created_kind = _MAKES.get(operation)
    return {
        key: value
        for specification in body.get("TagSpecifications") or ()
        if specification["ResourceType"] == created_kind
        for key, value in by_key(specification["Tags"]).items()
    }


def _named_resources(
    store: Store, operation: str, region: str, body: JsonObject
) -> Iterator[tuple[str, JsonObject]]:
    """Kind and record of each existing resource that the request names."""
    skipped = _NOT_CHECKED.get(operation, ())
    for value in _texts({key: part for key, part in body.items() if key not in skipped}):
        if value.startswith("rtbassoc-"):
            yield from _association_ends(store, region, value)
        for prefix, (kind, stored) in _KINDS.items():
            if value.startswith(prefix):
                yield kind, store.get(stored, f"{region}/{value}") or {}
    names = {"GroupName": state.PLACEMENT_GROUPS, "LaunchTemplateName": state.LAUNCH_TEMPLATES}
    for field, stored in names.items():
        if field in body and operation not in _MAKES:
            kind = "placement-group" if field == "GroupName" else "launch-template"
            for record in store.values(stored, prefix=f"{region}/"):
                if record.get(field) == body[field]:
                    yield kind, record


def _association_ends(
    store: Store, region: str, association: str
) -> Iterator[tuple[str, JsonObject]]:
    """The route table and the subnet of an association between them."""
    for table in store.values(state.ROUTE_TABLES, prefix=f"{region}/"):
        for entry in table["Associations"]:
            if entry.get("RouteTableAssociationId") == association:
                yield "route-table", table
                subnet = store.get(state.SUBNETS, f"{region}/{entry.get('SubnetId')}")
                if subnet is not None:
                    yield "subnet", subnet


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _texts(part)


def _role_of(store: Store, account: str, profile: Mapping[str, str]) -> str:
    name = profile.get("Name") or profile.get("Arn", "").rpartition("/")[2]
    record = store.get(state.INSTANCE_PROFILES, name) or {}
    return f"arn:aws:iam::{account}:role/{record.get('RoleName', name)}"
