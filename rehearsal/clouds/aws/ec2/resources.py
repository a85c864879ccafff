"""What the operations of the simulated EC2 share: lookup, listing, ids, tags."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from kubeapi import JsonObject
from rehearsal.clouds.aws.errors import aws_error
from rehearsal.clouds.aws.state import INTERNET_GATEWAYS, ROUTE_TABLES, SUBNETS, VPCS
from rehearsal.clouds.core.context import Handler
from rehearsal.clouds.core.errors import CloudError, not_simulated
from rehearsal.clouds.core.store import Kind, Store


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

    @property
    def ids_field(self) -> str:
        """The request's list of ids to describe."""
        return f"{self.id_field}s"

    @property
    def list_field(self) -> str:
        """The answer's list of resources."""
        return self.ids_field.replace("Id", "")


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
}


class Resources:
    """Resources of the region that `params` name."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, kind: Kind[JsonObject], params: JsonObject, identity: str) -> JsonObject:
        """Raises CloudError when there is none."""
        found = self._store.get(kind, key_of(params, identity))
        if found is None:
            names = API_NAMES[kind]
            raise aws_error(names.not_found, f"The {names.noun} ID '{identity}' does not exist")
        return found

    def put(self, kind: Kind[JsonObject], params: JsonObject, resource: JsonObject) -> JsonObject:
        return self._store.put(kind, key_of(params, resource[API_NAMES[kind].id_field]), resource)

    def all(self, kind: Kind[JsonObject], params: JsonObject) -> list[JsonObject]:
        return self._store.values(kind, prefix=f"{params['region']}/")

    def describe(self, kind: Kind[JsonObject]) -> Handler:
        names = API_NAMES[kind]

        def describe(params: JsonObject, body: JsonObject) -> JsonObject:
            if body.get("Filters"):
                raise not_simulated(
                    "The rehearsal's cloud does not simulate Filters; name the ids."
                )
            ids = body.get(names.ids_field)
            found = [self.find(kind, params, i) for i in ids] if ids else self.all(kind, params)
            return {names.list_field: [shown(f) for f in found]}

        return describe


def shown(resource: JsonObject) -> JsonObject:
    """Without the fields that only the simulation knows, which begin with `_`."""
    return {k: v for k, v in resource.items() if not k.startswith("_")}


def new_id(prefix: str) -> str:
    return f"{prefix}-0{secrets.token_hex(8)}"


def key_of(params: JsonObject, identity: str) -> str:
    return f"{params['region']}/{identity}"


def cidr_block(text: str | None, *, low: int, high: int) -> ipaddress.IPv4Network:
    try:
        block = ipaddress.IPv4Network(text or "")
    except ValueError:
        raise aws_error(
            "InvalidParameterValue",
            f"Value ({text}) for parameter cidrBlock is invalid. This is not a valid CIDR block.",
        ) from None
    if not low <= block.prefixlen <= high:
        raise aws_error(
            "InvalidVpc.Range",
            f"The CIDR '{text}' is invalid: its size must be between /{low} and /{high}.",
        )
    return block


def tags_of(body: JsonObject, resource_type: str) -> list[JsonObject]:
    """The tags that a request gives to what it creates, by key."""
    found: list[JsonObject] = []
    for specification in body.get("TagSpecifications", []):
        if specification.get("ResourceType") != resource_type:
            raise aws_error(
                "InvalidParameterValue",
                f"'{specification.get('ResourceType')}' is not a valid taggable resource "
                "type for this operation.",
            )
        found += specification.get("Tags", [])
    return sorted(found, key=lambda t: str(t["Key"]))


def dependency_violation(message: str) -> CloudError:
    return aws_error("DependencyViolation", message)
