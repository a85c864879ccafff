"""What the operations of the simulated EC2 share: lookup, listing, ids, tags."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import (
    ELASTIC_IPS,
    INTERNET_GATEWAYS,
    NAT_GATEWAYS,
    PLACEMENT_GROUPS,
    ROUTE_TABLES,
    SUBNETS,
    VPCS,
)
from slicewright.rehearsal.clouds.core.context import Context, Handler
from slicewright.rehearsal.clouds.core.errors import CloudError, not_simulated
from slicewright.rehearsal.clouds.core.store import Kind


@dataclass(frozen=True, kw_only=True)
class ApiNames:
    """How the API names one kind of resource."""

    prefix: str
    """Of its ids."""
    noun: str
    """In messages."""
    not_found: str
    """The error's name."""
    id_field: str
    listed: str | None = None
    """The answer's list of resources, if its name does not follow from the ids'."""
    deleted_by: str | None = None
    """The operation that deletes one, if its name does not follow from the id's."""

    @property
    def ids_field(self) -> str:
        """The request's list of ids to describe."""
        return f"{self.id_field}s"

    @property
    def list_field(self) -> str:
        """The answer's list of resources."""
        return self.listed or self.ids_field.replace("Id", "")

    @property
    def describe_operation(self) -> str:
        return f"Describe{self.list_field}"

    @property
    def delete_operation(self) -> str:
        return self.deleted_by or f"Delete{self.id_field.removesuffix('Id')}"


API_NAMES: Mapping[Kind[JsonObject], ApiNames] = {
    VPCS: ApiNames(prefix="vpc", noun="vpc", not_found="InvalidVpcID.NotFound", id_field="VpcId"),
    INTERNET_GATEWAYS: ApiNames(
        prefix="igw",
        noun="internetGateway",
        not_found="InvalidInternetGatewayID.NotFound",
        id_field="InternetGatewayId",
    ),
    SUBNETS: ApiNames(
        prefix="subnet",
        noun="subnet",
        not_found="InvalidSubnetID.NotFound",
        id_field="SubnetId",
    ),
    ROUTE_TABLES: ApiNames(
        prefix="rtb",
        noun="routeTable",
        not_found="InvalidRouteTableID.NotFound",
        id_field="RouteTableId",
    ),
    ELASTIC_IPS: ApiNames(
        prefix="eipalloc",
        noun="allocation",
        not_found="InvalidAllocationID.NotFound",
        id_field="AllocationId",
        listed="Addresses",
        deleted_by="ReleaseAddress",
    ),
    PLACEMENT_GROUPS: ApiNames(
        prefix="pg",
        noun="placementGroup",
        not_found="InvalidPlacementGroupId.Unknown",
        id_field="GroupId",
        listed="PlacementGroups",
        deleted_by="DeletePlacementGroup",
    ),
    NAT_GATEWAYS: ApiNames(
        prefix="nat",
        noun="natGateway",
        not_found="NatGatewayNotFound",
        id_field="NatGatewayId",
    ),
}


class Resources:
    """Resources of the region that `params` name."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def find(self, kind: Kind[JsonObject], params: JsonObject, identity: str) -> JsonObject:
        """Raises CloudError when there is none."""
        resource = self._store.get(kind, key_of(params, identity))
        if resource is None:
            raise _not_found(kind, identity)
        return resource

    def create(
        self, kind: Kind[JsonObject], params: JsonObject, resource: JsonObject
    ) -> JsonObject:
        """Stored, and in the API's form. EC2's Describe calls may not show it yet.

        Source: EC2 API reference, "Eventual consistency in the Amazon EC2 API".
        """
        unseen = account_of(self._context).unseen_reads
        self.put(kind, params, resource | ({"_unseen": unseen} if unseen else {}))
        return public_fields(resource)

    def put(self, kind: Kind[JsonObject], params: JsonObject, resource: JsonObject) -> JsonObject:
        return self._store.put(kind, key_of(params, resource[API_NAMES[kind].id_field]), resource)

    def delete(self, kind: Kind[JsonObject], params: JsonObject, identity: str) -> None:
        self._store.delete(kind, key_of(params, identity))

    @contextmanager
    def changing(
        self, kind: Kind[JsonObject], params: JsonObject, identity: str
    ) -> Iterator[JsonObject]:
        """Yields the resource under the store's lock, and stores it if the block succeeds."""
        with self._store.lock:
            resource = self.find(kind, params, identity)
            yield resource
            self.put(kind, params, resource)

    def all(self, kind: Kind[JsonObject], params: JsonObject) -> list[JsonObject]:
        return self._store.values(kind, prefix=f"{params['region']}/")

    def attached_gateways(self, params: JsonObject, vpc: str) -> list[JsonObject]:
        """Returns the internet gateways that are attached to the VPC: one at most."""
        return [
            gateway
            for gateway in self.all(INTERNET_GATEWAYS, params)
            if any(attachment["VpcId"] == vpc for attachment in gateway["Attachments"])
        ]

    def describe(self, kind: Kind[JsonObject]) -> Handler:
        names = API_NAMES[kind]

        def describe(params: JsonObject, body: JsonObject) -> JsonObject:
            filters = body.get("Filters") or body.get("Filter") or ()
            if not all(str(condition["Name"]).startswith("tag") for condition in filters):
                raise not_simulated(
                    "The rehearsal's cloud simulates filters by tags only; name the ids."
                )
            ids = body.get(names.ids_field)
            with self._store.lock:
                chosen = (
                    [self.find(kind, params, i) for i in ids] if ids else self.all(kind, params)
                )
                visible = [f for f in chosen if not self._is_unseen(kind, params, f)]
            if ids and len(visible) < len(chosen):
                raise _not_found(
                    kind, next(i for i in ids if not any(v[names.id_field] == i for v in visible))
                )
            return {names.list_field: [public_fields(f) for f in filtered(visible, filters, {})]}

        return describe

    def _is_unseen(self, kind: Kind[JsonObject], params: JsonObject, resource: JsonObject) -> bool:
        """Whether this read does not show the resource yet; it is one of those that count."""
        unseen_reads = resource.get("_unseen", 0)
        if unseen_reads:
            self.put(kind, params, resource | {"_unseen": unseen_reads - 1})
        return bool(unseen_reads)


def _not_found(kind: Kind[JsonObject], identity: str) -> CloudError:
    names = API_NAMES[kind]
    return aws_error(names.not_found, f"The {names.noun} ID '{identity}' does not exist")


def public_fields(resource: JsonObject) -> JsonObject:
    """Without the fields that only the simulation knows, which begin with `_`."""
    return {k: v for k, v in resource.items() if not k.startswith("_")}


def filtered(
    resources: Sequence[JsonObject],
    filters: Sequence[JsonObject],
    members: Mapping[str, Callable[[JsonObject], Sequence[str]]],
    *,
    tags: str = "Tags",
) -> list[JsonObject]:
    """Those that match all filters. members: filter -> the values that a resource has of it.

    `tag:KEY` and `tag-key` are known of all. tags: where a resource has them. Raises CloudError.
    """
    matching = list(resources)
    for condition in filters:
        name, values = str(condition["Name"]), set(condition.get("Values", ()))
        if name == "tag-key":
            matching = [r for r in matching if {t["Key"] for t in r[tags]} & values]
        elif name.startswith("tag:"):
            key = name.removeprefix("tag:")
            matching = [
                r
                for r in matching
                if any(t["Key"] == key and t["Value"] in values for t in r[tags])
            ]
        elif name in members:
            matching = [r for r in matching if set(members[name](r)) & values]
        else:
            raise aws_error("InvalidParameterValue", f"The filter '{name}' is invalid")
    return matching


def new_id(prefix: str) -> str:
    return f"{prefix}-0{secrets.token_hex(8)}"


def key_of(params: JsonObject, identity: str) -> str:
    return f"{params['region']}/{identity}"


def cidr_block(text: str | None, parameter: str) -> ipaddress.IPv4Network:
    """The block, without host bits: EC2 turns 100.68.0.18/18 into 100.68.0.0/18.

    Source: EC2 API reference, CreateVpc, CreateSubnet.
    """
    if not text:
        raise missing(parameter)
    try:
        return ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        raise aws_error(
            "InvalidParameterValue",
            f"Value ({text}) for parameter {parameter} is invalid. This is not a valid CIDR block.",
        ) from None


def missing(parameter: str) -> CloudError:
    return aws_error("MissingParameter", f"The request must contain the parameter {parameter}")


def tags_of(body: JsonObject, resource_type: str) -> list[JsonObject]:
    """The tags that a request gives to what it creates, by key."""
    tagged: list[JsonObject] = []
    for specification in body.get("TagSpecifications", []):
        if specification.get("ResourceType") != resource_type:
            raise aws_error(
                "InvalidParameterValue",
                f"'{specification.get('ResourceType')}' is not a valid taggable resource "
                "type for this operation.",
            )
        tagged += specification.get("Tags", [])
    keys = [str(t["Key"]) for t in tagged]
    for key in keys:
        if keys.count(key) > 1:
            raise aws_error("InvalidParameterValue", f"Duplicate tag key '{key}' specified.")
    check_tags({str(t["Key"]): str(t.get("Value", "")) for t in tagged})
    return sorted(tagged, key=lambda t: str(t["Key"]))


def check_tags(tags: Mapping[str, str]) -> None:
    """All tags that a resource is to have. Source: Amazon EC2 user guide, "Tag restrictions"."""
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            raise aws_error(
                "InvalidParameterValue",
                f"Tag keys starting with 'aws:' are reserved for internal use: {key}",
            )
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise aws_error(
                "InvalidParameterValue",
                f"Tag {key[:128]!r}: keys have 1 to 128 characters, values at most 256",
            )
    if len(tags) > 50:
        raise aws_error(
            "TagLimitExceeded", "The maximum number of Tags for a resource has been reached."
        )


def dependency_violation(message: str) -> CloudError:
    return aws_error("DependencyViolation", message)
