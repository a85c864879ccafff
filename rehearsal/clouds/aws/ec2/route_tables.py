"""Route tables: their routes, and the subnets that use them."""

from __future__ import annotations

from typing import Literal

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.operations import Operations
from slicewright.rehearsal.clouds.aws.ec2.resources import cidr_block, missing, new_id, tags_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import (
    INTERNET_GATEWAYS,
    NAT_GATEWAYS,
    ROUTE_TABLES,
    SUBNETS,
    VPCS,
)
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError, not_simulated


class RouteTables(Operations):
    kind = ROUTE_TABLES

    def methods(self) -> Methods:
        return {
            **super().methods(),
            "CreateRouteTable": self._create,
            "CreateRoute": self._create_route,
            "ReplaceRoute": self._replace_route,
            "DeleteRoute": self._delete_route,
            "AssociateRouteTable": self._associate,
            "DisassociateRouteTable": self._disassociate,
            "ReplaceRouteTableAssociation": self._replace_association,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            vpc = self._ec2.find(VPCS, params, body["VpcId"])
            table = {
                "RouteTableId": new_id("rtb"),
                "VpcId": vpc["VpcId"],
                "OwnerId": ACCOUNT,
                "Routes": [
                    {
                        "DestinationCidrBlock": vpc["CidrBlock"],
                        "GatewayId": "local",
                        "Origin": "CreateRouteTable",
                        "State": "active",
                    }
                ],
                "Associations": [],
                "PropagatingVgws": [],
                "Tags": tags_of(body, "route-table"),
            }
            return {"RouteTable": self._ec2.create(ROUTE_TABLES, params, table)}

    def _create_route(self, params: JsonObject, body: JsonObject) -> JsonObject:
        destination = str(cidr_block(body.get("DestinationCidrBlock"), "destinationCidrBlock"))
        with self._ec2.changing(ROUTE_TABLES, params, body["RouteTableId"]) as table:
            target = self._target(params, table, body)
            if any(r["DestinationCidrBlock"] == destination for r in table["Routes"]):
                raise aws_error(
                    "RouteAlreadyExists", f"The route identified by {destination} already exists."
                )
            table["Routes"].append(
                {
                    "DestinationCidrBlock": destination,
                    **target,
                    "Origin": "CreateRoute",
                    "State": "active",
                }
            )
        return {"Return": True}

    def _target(self, params: JsonObject, table: JsonObject, body: JsonObject) -> JsonObject:
        """Where a route leads. Raises CloudError."""
        gateway, nat = body.get("GatewayId"), body.get("NatGatewayId")
        if bool(gateway) == bool(nat):
            raise not_simulated(
                "The rehearsal's cloud simulates routes to one internet gateway (GatewayId) or one "
                "NAT gateway (NatGatewayId)."
            )
        if nat:
            nat_gateway = self._ec2.find(NAT_GATEWAYS, params, nat)
            if nat_gateway["State"] not in ("pending", "available"):
                raise aws_error(
                    "InvalidNatGatewayID.NotFound", f"The natGateway ID '{nat}' does not exist"
                )
            vpcs = [nat_gateway["VpcId"]]
        else:
            attached = self._ec2.find(INTERNET_GATEWAYS, params, str(gateway))["Attachments"]
            vpcs = [a["VpcId"] for a in attached]
        if table["VpcId"] not in vpcs:
            raise aws_error(
                "InvalidParameterValue",
                f"route table {table['RouteTableId']} and network gateway {nat or gateway} "
                "belong to different networks",
            )
        return {"NatGatewayId": nat} if nat else {"GatewayId": gateway}

    def _replace_route(self, params: JsonObject, body: JsonObject) -> JsonObject:
        destination = str(cidr_block(body.get("DestinationCidrBlock"), "destinationCidrBlock"))
        with self._ec2.changing(ROUTE_TABLES, params, body["RouteTableId"]) as table:
            target = self._target(params, table, body)
            remaining = [r for r in table["Routes"] if r["DestinationCidrBlock"] != destination]
            if len(remaining) == len(table["Routes"]):
                raise aws_error(
                    "InvalidParameterValue",
                    f"There is no route defined for '{destination}' in the route table. Use "
                    "CreateRoute instead.",
                )
            route = {
                "DestinationCidrBlock": destination,
                **target,
                "Origin": "CreateRoute",
                "State": "active",
            }
            table["Routes"] = [*remaining, route]
        return {}

    def _delete_route(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._ec2.changing(ROUTE_TABLES, params, body["RouteTableId"]) as table:
            remaining = [
                r
                for r in table["Routes"]
                if r["DestinationCidrBlock"] != body.get("DestinationCidrBlock")
            ]
            if not any(r.get("GatewayId") == "local" for r in remaining):
                raise aws_error(
                    "InvalidParameterValue",
                    f"cannot remove local route {body['DestinationCidrBlock']} in route table "
                    f"{table['RouteTableId']}",
                )
            if len(remaining) == len(table["Routes"]):
                raise aws_error(
                    "InvalidRoute.NotFound",
                    f"no route with destination-cidr-block {body.get('DestinationCidrBlock')} "
                    f"in route table {table['RouteTableId']}",
                )
            table["Routes"] = remaining
        return {}

    def _associate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        if not body.get("SubnetId"):
            raise missing("subnetId or gatewayId")
        with self._ec2.changing(ROUTE_TABLES, params, body["RouteTableId"]) as table:
            subnet = self._ec2.find(SUBNETS, params, body["SubnetId"])
            if subnet["VpcId"] != table["VpcId"]:
                raise aws_error(
                    "InvalidParameterValue",
                    f"route table {table['RouteTableId']} and subnet {subnet['SubnetId']} "
                    "belong to different networks",
                )
            if any(
                a["SubnetId"] == subnet["SubnetId"]
                for t in self._ec2.all(ROUTE_TABLES, params)
                for a in t["Associations"]
            ):
                raise aws_error(
                    "Resource.AlreadyAssociated",
                    f"the specified association for route table {table['RouteTableId']} "
                    "conflicts with an existing association",
                )
            association = {
                "RouteTableAssociationId": new_id("rtbassoc"),
                "RouteTableId": table["RouteTableId"],
                "SubnetId": subnet["SubnetId"],
                "Main": False,
                "AssociationState": {"State": "associated"},
            }
            table["Associations"].append(association)
        return {
            "AssociationId": association["RouteTableAssociationId"],
            "AssociationState": {"State": "associated"},
        }

    def _replace_association(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """The association gets a new id. Source: EC2 API, ReplaceRouteTableAssociation."""
        with self._store.lock:
            new = self._ec2.find(ROUTE_TABLES, params, body["RouteTableId"])
            table = self._find_association(params, body["AssociationId"])
            if table is None:
                raise _no_association(body["AssociationId"])
            old, association = table
            if old["VpcId"] != new["VpcId"]:
                raise aws_error(
                    "InvalidParameterValue",
                    f"route table {new['RouteTableId']} and subnet {association['SubnetId']} "
                    "belong to different networks",
                )
            remaining = [a for a in old["Associations"] if a != association]
            self._ec2.put(ROUTE_TABLES, params, old | {"Associations": remaining})
            new = self._ec2.find(ROUTE_TABLES, params, body["RouteTableId"])
            association = association | {
                "RouteTableAssociationId": new_id("rtbassoc"),
                "RouteTableId": new["RouteTableId"],
            }
            new["Associations"].append(association)
            self._ec2.put(ROUTE_TABLES, params, new)
        return {
            "NewAssociationId": association["RouteTableAssociationId"],
            "AssociationState": {"State": "associated"},
        }

    def _find_association(
        self, params: JsonObject, identity: str
    ) -> tuple[JsonObject, JsonObject] | None:
        """The table and its association."""
        for table in self._ec2.all(ROUTE_TABLES, params):
            for association in table["Associations"]:
                if association["RouteTableAssociationId"] == identity:
                    return table, association
        return None

    def _disassociate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            association_place = self._find_association(params, body["AssociationId"])
            if association_place is None:
                raise _no_association(body["AssociationId"])
            table, association = association_place
            remaining = [a for a in table["Associations"] if a != association]
            self._ec2.put(ROUTE_TABLES, params, table | {"Associations": remaining})
        return {}

    def _check_unused(self, params: JsonObject, resource: JsonObject) -> None:
        if resource["Associations"]:
            raise self._has_dependencies(resource)


def _no_association(identity: str) -> CloudError:
    return aws_error(
        "InvalidAssociationID.NotFound", f"The association ID '{identity}' does not exist"
    )


def way_out(
    context: Context, region: str, subnet_id: str
) -> Literal["internet-gateway", "nat-gateway"] | None:
    """Where the subnet's default route leads, which nodes need to reach the registry; None: there
    is none, or it leads nowhere.
    """
    route = _default_route(context, region, subnet_id)
    if route is None:
        return None
    nat = route.get("NatGatewayId")
    if nat is None:
        return "internet-gateway"
    gateway = context.store.get(NAT_GATEWAYS, f"{region}/{nat}")
    if gateway is None or gateway["State"] != "available":
        return None
    # The gateway itself must be in a public subnet.
    beyond = way_out(context, region, gateway["SubnetId"])
    return "nat-gateway" if beyond == "internet-gateway" else None


def nat_gateway_of(context: Context, region: str, subnet_id: str) -> str:
    """The id of the gateway whose address the subnet's nodes share; empty: they have their own."""
    route = _default_route(context, region, subnet_id)
    return str((route or {}).get("NatGatewayId") or "")


def _default_route(context: Context, region: str, subnet_id: str) -> JsonObject | None:
    for table in context.store.values(ROUTE_TABLES, prefix=f"{region}/"):
        if any(a["SubnetId"] == subnet_id for a in table["Associations"]):
            routes = (r for r in table["Routes"] if r["DestinationCidrBlock"] == "0.0.0.0/0")
            return next(routes, None)
    return None
