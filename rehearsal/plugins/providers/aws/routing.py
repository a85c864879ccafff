"""aws:ec2 InternetGateway, RouteTable and RouteTableAssociation."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.plugins.bridge.resources import (
    CreateResult,
    Resource,
    Session,
    State,
    members,
    prior_values,
)
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    call,
    or_none,
    region_of,
    tag_specifications,
)
from slicewright.rehearsal.plugins.providers.aws.ec2_resource import Ec2Resource
from slicewright.rehearsal.plugins.providers.aws.retries import once_free


class InternetGateway(Ec2Resource):
    kind = "aws:ec2/internetGateway:InternetGateway"
    force_new = ("region",)
    keeps = ("vpcId", "region")

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "CreateInternetGateway",
            TagSpecifications=tag_specifications("internet-gateway", inputs),
        )
        resource_id = created["InternetGateway"]["InternetGatewayId"]
        if inputs.get("vpcId"):
            call(
                session,
                inputs,
                "ec2",
                "AttachInternetGateway",
                InternetGatewayId=resource_id,
                VpcId=inputs["vpcId"],
            )
        return CreateResult(resource_id)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        gateway = _gateway(session, resource_id, inputs)
        if gateway is None:
            return None
        attached = [a["VpcId"] for a in gateway["Attachments"]]
        read_inputs = {"vpcId": attached[0]} if attached else {}
        region = region_of(session, inputs)
        outputs = {
            "vpcId": attached[0] if attached else "",
            "ownerId": ACCOUNT,
            "arn": f"arn:aws:ec2:{region}:{ACCOUNT}:internet-gateway/{resource_id}",
        }
        return self.state(
            session, inputs, tags=gateway["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def change(self, session: Session, resource_id: str, old: Properties, new: Properties) -> None:
        if old.get("vpcId") != new.get("vpcId"):
            _detach(session, resource_id, new)
            if new.get("vpcId"):
                call(
                    session,
                    new,
                    "ec2",
                    "AttachInternetGateway",
                    InternetGatewayId=resource_id,
                    VpcId=new["vpcId"],
                )

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if _gateway(session, resource_id, inputs) is not None:
            _detach(session, resource_id, inputs)
            call(session, inputs, "ec2", "DeleteInternetGateway", InternetGatewayId=resource_id)


def _gateway(session: Session, resource_id: str, inputs: Properties) -> JsonObject | None:
    answer = or_none(
        session, inputs, "ec2", "DescribeInternetGateways", InternetGatewayIds=[resource_id]
    )
    return answer["InternetGateways"][0] if answer else None


def _detach(session: Session, resource_id: str, inputs: Properties) -> None:
    gateway = _gateway(session, resource_id, inputs) or {"Attachments": []}
    for attachment in gateway["Attachments"]:
        where = {"InternetGatewayId": resource_id, "VpcId": attachment["VpcId"]}
        _once_detachable(session, inputs, where)


def _once_detachable(session: Session, inputs: Properties, where: JsonObject) -> None:
    once_free(session, lambda: call(session, inputs, "ec2", "DetachInternetGateway", **where))


_ROUTE = {
    "cidrBlock": "DestinationCidrBlock",
    "gatewayId": "GatewayId",
    "natGatewayId": "NatGatewayId",
}


class RouteTable(Ec2Resource):
    """With inline routes (`routes`), of which those to internet and NAT gateways are simulated."""

    kind = "aws:ec2/routeTable:RouteTable"
    force_new = ("vpcId", "region")
    sets = ("routes",)
    keeps = ("routes", "region")

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        failures = []
        for index, route in enumerate(members(inputs.get("routes"))):
            if isinstance(route, dict):
                failures += [
                    CheckFailure(
                        f"routes[{index}].{name}",
                        "the rehearsal does not simulate this property of a route; it simulates "
                        + ", ".join(_ROUTE),
                    )
                    for name in route
                    if name not in _ROUTE
                ]
        if inputs.get("propagatingVgws"):
            failures.append(
                CheckFailure("propagatingVgws", "the rehearsal does not simulate this property")
            )
        return failures

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "CreateRouteTable",
            VpcId=inputs["vpcId"],
            TagSpecifications=tag_specifications("route-table", inputs),
        )
        resource_id = created["RouteTable"]["RouteTableId"]
        _set_routes(session, resource_id, {}, inputs)
        return CreateResult(resource_id)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        answer = or_none(session, inputs, "ec2", "DescribeRouteTables", RouteTableIds=[resource_id])
        if answer is None:
            return None
        table = answer["RouteTables"][0]
        routes = [
            {name: r[api] for name, api in _ROUTE.items() if api in r}
            for r in table["Routes"]
            if r.get("GatewayId") != "local"
        ]
        read_inputs: JsonObject = {"vpcId": table["VpcId"]}
        if routes or "routes" in inputs:
            prior_routes = inputs.get("routes") or []
            read_inputs["routes"] = [r for r in prior_routes if r in routes] + [
                r for r in routes if r not in prior_routes
            ]
        region = region_of(session, inputs)
        outputs = {
            "routes": routes,
            "ownerId": ACCOUNT,
            "propagatingVgws": [],
            "arn": f"arn:aws:ec2:{region}:{ACCOUNT}:route-table/{resource_id}",
        }
        return self.state(
            session, inputs, tags=table["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def change(self, session: Session, resource_id: str, old: Properties, new: Properties) -> None:
        _set_routes(session, resource_id, old, new)

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        or_none(session, inputs, "ec2", "DeleteRouteTable", RouteTableId=resource_id)


def _set_routes(session: Session, resource_id: str, old: Properties, new: Properties) -> None:
    before, after = old.get("routes") or [], new.get("routes") or []
    remaining = {route["cidrBlock"] for route in after}
    existing = {route["cidrBlock"] for route in before}
    for destination in existing - remaining:
        where = {"RouteTableId": resource_id, "DestinationCidrBlock": destination}
        call(session, new, "ec2", "DeleteRoute", **where)
    for route in after:
        if route not in before:
            where = {api: route.get(name) for name, api in _ROUTE.items()}
            operation = "ReplaceRoute" if route["cidrBlock"] in existing else "CreateRoute"
            call(session, new, "ec2", operation, RouteTableId=resource_id, **where)


class RouteTableAssociation(Resource):
    kind = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    force_new = ("subnetId", "gatewayId", "region")
    keeps = ("region",)

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        if "subnetId" not in inputs:
            return [
                CheckFailure(
                    "subnetId",
                    "must be set: the rehearsal associates route tables with subnets only",
                )
            ]
        return []

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "AssociateRouteTable",
            RouteTableId=inputs["routeTableId"],
            SubnetId=inputs["subnetId"],
        )
        return CreateResult(created["AssociationId"])

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        tables = call(session, inputs, "ec2", "DescribeRouteTables")["RouteTables"]
        for association in (a for t in tables for a in t["Associations"]):
            # By the subnet, too: a change of the table in place gives the association another id,
            # which Pulumi does not store.
            if resource_id == association["RouteTableAssociationId"] or (
                inputs.get("subnetId") == association["SubnetId"]
            ):
                read_inputs = {
                    "routeTableId": association["RouteTableId"],
                    "subnetId": association["SubnetId"],
                }
                return State(
                    {**read_inputs, **prior_values(inputs, "region")},
                    {**read_inputs, "region": region_of(session, inputs)},
                )
        return None

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        identity = self._identity(session, resource_id, old)
        if identity is not None:
            call(
                session,
                new,
                "ec2",
                "ReplaceRouteTableAssociation",
                AssociationId=identity,
                RouteTableId=new["routeTableId"],
            )
        return []

    def _identity(self, session: Session, resource_id: str, inputs: Properties) -> str | None:
        """The association's id of today."""
        tables = call(session, inputs, "ec2", "DescribeRouteTables")["RouteTables"]
        identities = {
            a["SubnetId"]: a["RouteTableAssociationId"] for t in tables for a in t["Associations"]
        }
        return (
            resource_id
            if resource_id in identities.values()
            else identities.get(inputs["subnetId"])
        )

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        identity = self._identity(session, resource_id, inputs)
        if identity is not None:
            or_none(session, inputs, "ec2", "DisassociateRouteTable", AssociationId=identity)
