"""The simulated EC2: networks, their parts, and who still depends on them. Launch templates stand
in launch_templates.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Callable

from kubeapi import JsonObject
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.aws.launch_templates import TEMPLATES, LaunchTemplates
from rehearsal.clouds.core.context import Context, Handler, Methods
from rehearsal.clouds.core.errors import CloudError, aws_error

VPCS, GATEWAYS, SUBNETS, ROUTES = (
    "ec2/vpcs",
    "ec2/internetGateways",
    "ec2/subnets",
    "ec2/routeTables",
)
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-f]")
# kind -> (id prefix, what the error calls it, the request's list of ids, the answer's list, the
# id's field)
_KINDS = {
    VPCS: ("vpc", "InvalidVpcID.NotFound", "VpcIds", "Vpcs", "VpcId"),
    GATEWAYS: (
        "igw",
        "InvalidInternetGatewayID.NotFound",
        "InternetGatewayIds",
        "InternetGateways",
        "InternetGatewayId",
    ),
    SUBNETS: ("subnet", "InvalidSubnetID.NotFound", "SubnetIds", "Subnets", "SubnetId"),
    ROUTES: ("rtb", "InvalidRouteTableID.NotFound", "RouteTableIds", "RouteTables", "RouteTableId"),
}


class Ec2:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._templates = LaunchTemplates(context)

    def methods(self) -> Methods:
        return {
            "CreateVpc": self._create_vpc,
            "ModifyVpcAttribute": self._modify_vpc,
            "DescribeVpcAttribute": self._vpc_attribute,
            "DescribeVpcs": self._describe(VPCS),
            "DeleteVpc": self._delete_vpc,
            "CreateInternetGateway": self._create_gateway,
            "AttachInternetGateway": self._attach_gateway,
            "DetachInternetGateway": self._detach_gateway,
            "DescribeInternetGateways": self._describe(GATEWAYS),
            "DeleteInternetGateway": self._delete_gateway,
            "CreateSubnet": self._create_subnet,
            "ModifySubnetAttribute": self._modify_subnet,
            "DescribeSubnets": self._describe(SUBNETS),
            "DeleteSubnet": self._delete_subnet,
            "CreateRouteTable": self._create_table,
            "CreateRoute": self._create_route,
            "DeleteRoute": self._delete_route,
            "AssociateRouteTable": self._associate,
            "DisassociateRouteTable": self._disassociate,
            "DescribeRouteTables": self._describe(ROUTES),
            "DeleteRouteTable": self._delete_table,
            "CreateTags": self._create_tags,
            "DeleteTags": self._delete_tags,
            **self._templates.methods(),
        }

    def inventory(self) -> list[JsonObject]:
        found = [
            {"kind": f"ec2.{kind.partition('/')[2][:-1]}", "name": key}
            for kind in _KINDS
            for key, _ in self._store.items(kind)
        ]
        return found + self._templates.inventory()

    def _find(self, kind: str, params: JsonObject, identity: str) -> JsonObject:
        found = self._store.get(kind, _key(params, identity))
        if found is None:
            prefix, error, *_ = _KINDS[kind]
            word = {
                "vpc": "vpc",
                "igw": "internetGateway",
                "subnet": "subnet",
                "rtb": "routeTable",
            }[prefix]
            raise aws_error(error, f"The {word} ID '{identity}' does not exist")
        return found

    def _put(self, kind: str, params: JsonObject, thing: JsonObject) -> JsonObject:
        return self._store.put(kind, _key(params, thing[_KINDS[kind][4]]), thing)

    def _all(self, kind: str, params: JsonObject) -> list[JsonObject]:
        return [v for k, v in self._store.items(kind) if k.startswith(f"{params['region']}/")]

    def _describe(self, kind: str) -> Handler:
        def describe(params: JsonObject, body: JsonObject) -> JsonObject:
            if body.get("Filters"):
                raise CloudError(
                    501,
                    "NOT_SIMULATED",
                    "The rehearsal's cloud does not simulate Filters; name the ids.",
                )
            ids = body.get(_KINDS[kind][2])
            found = [self._find(kind, params, i) for i in ids] if ids else self._all(kind, params)
            return {
                _KINDS[kind][3]: [
                    {k: v for k, v in f.items() if not k.startswith("_")} for f in found
                ]
            }

        return describe

    def _create_vpc(self, params: JsonObject, body: JsonObject) -> JsonObject:
        block = _block(body.get("CidrBlock"), low=16, high=28)
        vpc = {
            "VpcId": _identity("vpc"),
            "CidrBlock": str(block),
            "State": "available",
            "OwnerId": ACCOUNT,
            "InstanceTenancy": body.get("InstanceTenancy", "default"),
            "IsDefault": False,
            "DhcpOptionsId": "dopt-0a1b2c3d4e5f60718",
            "Tags": _tags(body, "vpc"),
            "_attributes": {"EnableDnsSupport": True, "EnableDnsHostnames": False},
        }
        return {"Vpc": self._put(VPCS, params, vpc)}

    def _modify_vpc(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            vpc = self._find(VPCS, params, body["VpcId"])
            vpc["_attributes"] |= {k: bool(v.get("Value")) for k, v in body.items() if k != "VpcId"}
            self._put(VPCS, params, vpc)
        return {}

    def _vpc_attribute(self, params: JsonObject, body: JsonObject) -> JsonObject:
        vpc = self._find(VPCS, params, body["VpcId"])
        name = body["Attribute"][:1].upper() + body["Attribute"][1:]
        return {"VpcId": vpc["VpcId"], name: {"Value": vpc["_attributes"].get(name, False)}}

    def _delete_vpc(self, params: JsonObject, body: JsonObject) -> JsonObject:
        identity = body["VpcId"]
        with self._store.lock:
            self._find(VPCS, params, identity)
            inside = [s for s in self._all(SUBNETS, params) if s["VpcId"] == identity]
            inside += [t for t in self._all(ROUTES, params) if t["VpcId"] == identity]
            inside += [
                g
                for g in self._all(GATEWAYS, params)
                if any(a["VpcId"] == identity for a in g["Attachments"])
            ]
            if inside:
                raise _dependency(f"The vpc '{identity}' has dependencies and cannot be deleted.")
            self._store.delete(VPCS, _key(params, identity))
        return {}

    def _create_gateway(self, params: JsonObject, body: JsonObject) -> JsonObject:
        gateway = {
            "InternetGatewayId": _identity("igw"),
            "OwnerId": ACCOUNT,
            "Attachments": [],
            "Tags": _tags(body, "internet-gateway"),
        }
        return {"InternetGateway": self._put(GATEWAYS, params, gateway)}

    def _attach_gateway(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            gateway = self._find(GATEWAYS, params, body["InternetGatewayId"])
            self._find(VPCS, params, body["VpcId"])
            if gateway["Attachments"]:
                raise aws_error(
                    "Resource.AlreadyAssociated",
                    f"resource {gateway['InternetGatewayId']} is already attached to a network",
                )
            if any(
                a["VpcId"] == body["VpcId"]
                for g in self._all(GATEWAYS, params)
                for a in g["Attachments"]
            ):
                raise aws_error(
                    "InvalidParameterValue",
                    f"Network {body['VpcId']} already has an internet gateway attached",
                )
            gateway["Attachments"] = [{"VpcId": body["VpcId"], "State": "available"}]
            self._put(GATEWAYS, params, gateway)
        return {}

    def _detach_gateway(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            gateway = self._find(GATEWAYS, params, body["InternetGatewayId"])
            if not any(a["VpcId"] == body["VpcId"] for a in gateway["Attachments"]):
                raise aws_error(
                    "Gateway.NotAttached",
                    f"resource {gateway['InternetGatewayId']} is not attached to network "
                    f"{body['VpcId']}",
                )
            if self._context.store.values("eks/nodegroups") and self._machines_in(
                params, body["VpcId"]
            ):
                raise _dependency(
                    f"Network {body['VpcId']} has some mapped public address(es). "
                    "Please unmap those public address(es) before detaching the gateway."
                )
            gateway["Attachments"] = []
            self._put(GATEWAYS, params, gateway)
        return {}

    def _delete_gateway(self, params: JsonObject, body: JsonObject) -> JsonObject:
        identity = body["InternetGatewayId"]
        with self._store.lock:
            if self._find(GATEWAYS, params, identity)["Attachments"]:
                raise _dependency(
                    f"The internetGateway '{identity}' has dependencies and cannot be deleted."
                )
            self._store.delete(GATEWAYS, _key(params, identity))
        return {}

    def _create_subnet(self, params: JsonObject, body: JsonObject) -> JsonObject:
        block = _block(body.get("CidrBlock"), low=16, high=28)
        zone = body.get("AvailabilityZone") or f"{params['region']}a"
        if not _ZONE.fullmatch(zone) or zone[:-1] != params["region"]:
            known = ", ".join(f"{params['region']}{letter}" for letter in "abc")
            raise aws_error(
                "InvalidParameterValue",
                f"Value ({zone}) for parameter availabilityZone is invalid. "
                "Subnets can currently only be created in the following availability "
                f"zones: {known}.",
            )
        with self._store.lock:
            vpc = self._find(VPCS, params, body["VpcId"])
            if not block.subnet_of(ipaddress.IPv4Network(vpc["CidrBlock"])):
                raise aws_error("InvalidSubnet.Range", f"The CIDR '{block}' is invalid.")
            for other in self._all(SUBNETS, params):
                if other["VpcId"] == vpc["VpcId"] and block.overlaps(
                    ipaddress.ip_network(other["CidrBlock"])
                ):
                    raise aws_error(
                        "InvalidSubnet.Conflict",
                        f"The CIDR '{block}' conflicts with another subnet",
                    )
            identity = _identity("subnet")
            subnet = {
                "SubnetId": identity,
                "SubnetArn": f"arn:aws:ec2:{params['region']}:{ACCOUNT}:subnet/{identity}",
                "VpcId": vpc["VpcId"],
                "CidrBlock": str(block),
                "AvailabilityZone": zone,
                "AvailabilityZoneId": _zone_id(zone),
                "AvailableIpAddressCount": block.num_addresses - 5,
                "MapPublicIpOnLaunch": False,
                "State": "available",
                "OwnerId": ACCOUNT,
                "Tags": _tags(body, "subnet"),
            }
            return {"Subnet": self._put(SUBNETS, params, subnet)}

    def _modify_subnet(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            subnet = self._find(SUBNETS, params, body["SubnetId"])
            subnet |= {
                k: bool(v.get("Value"))
                for k, v in body.items()
                if k != "SubnetId" and isinstance(v, dict)
            }
            self._put(SUBNETS, params, subnet)
        return {}

    def _delete_subnet(self, params: JsonObject, body: JsonObject) -> JsonObject:
        identity = body["SubnetId"]
        with self._store.lock:
            self._find(SUBNETS, params, identity)
            users = [
                c["cluster"]["resourcesVpcConfig"]["subnetIds"]
                for c in self._store.values("eks/clusters")
            ]
            users += [g["nodegroup"]["subnets"] for g in self._store.values("eks/nodegroups")]
            if any(identity in subnets for subnets in users):
                raise _dependency(
                    f"The subnet '{identity}' has dependencies and cannot be deleted."
                )
            for table in self._all(ROUTES, params):
                table["Associations"] = [
                    a for a in table["Associations"] if a["SubnetId"] != identity
                ]
                self._put(ROUTES, params, table)
            self._store.delete(SUBNETS, _key(params, identity))
        return {}

    def _create_table(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            vpc = self._find(VPCS, params, body["VpcId"])
            table = {
                "RouteTableId": _identity("rtb"),
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
                "Tags": _tags(body, "route-table"),
            }
            return {"RouteTable": self._put(ROUTES, params, table)}

    def _create_route(self, params: JsonObject, body: JsonObject) -> JsonObject:
        destination = str(ipaddress.ip_network(body.get("DestinationCidrBlock", "")))
        with self._store.lock:
            table = self._find(ROUTES, params, body["RouteTableId"])
            gateway = body.get("GatewayId")
            if not gateway:
                raise CloudError(
                    501,
                    "NOT_SIMULATED",
                    "The rehearsal's cloud simulates routes to internet gateways only (GatewayId).",
                )
            attachments = self._find(GATEWAYS, params, gateway)["Attachments"]
            if not any(a["VpcId"] == table["VpcId"] for a in attachments):
                raise aws_error(
                    "InvalidParameterValue",
                    f"route table {table['RouteTableId']} and network gateway {gateway} "
                    "belong to different networks",
                )
            if any(r["DestinationCidrBlock"] == destination for r in table["Routes"]):
                raise aws_error(
                    "RouteAlreadyExists", f"The route identified by {destination} already exists."
                )
            table["Routes"].append(
                {
                    "DestinationCidrBlock": destination,
                    "GatewayId": gateway,
                    "Origin": "CreateRoute",
                    "State": "active",
                }
            )
            self._put(ROUTES, params, table)
        return {"Return": True}

    def _delete_route(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            table = self._find(ROUTES, params, body["RouteTableId"])
            left = [
                r
                for r in table["Routes"]
                if r["DestinationCidrBlock"] != body.get("DestinationCidrBlock")
            ]
            if len(left) == len(table["Routes"]):
                raise aws_error(
                    "InvalidRoute.NotFound",
                    f"no route with destination-cidr-block {body.get('DestinationCidrBlock')} "
                    f"in route table {table['RouteTableId']}",
                )
            self._put(ROUTES, params, table | {"Routes": left})
        return {}

    def _associate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            table = self._find(ROUTES, params, body["RouteTableId"])
            subnet = self._find(SUBNETS, params, body["SubnetId"])
            if subnet["VpcId"] != table["VpcId"]:
                raise aws_error(
                    "InvalidParameterValue",
                    f"route table {table['RouteTableId']} and subnet {subnet['SubnetId']} "
                    "belong to different networks",
                )
            if any(
                a["SubnetId"] == subnet["SubnetId"]
                for t in self._all(ROUTES, params)
                for a in t["Associations"]
            ):
                raise aws_error(
                    "Resource.AlreadyAssociated",
                    f"the specified association for route table {table['RouteTableId']} "
                    "conflicts with an existing association",
                )
            association = {
                "RouteTableAssociationId": _identity("rtbassoc"),
                "RouteTableId": table["RouteTableId"],
                "SubnetId": subnet["SubnetId"],
                "Main": False,
                "AssociationState": {"State": "associated"},
            }
            table["Associations"].append(association)
            self._put(ROUTES, params, table)
        return {
            "AssociationId": association["RouteTableAssociationId"],
            "AssociationState": {"State": "associated"},
        }

    def _disassociate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            for table in self._all(ROUTES, params):
                left = [
                    a
                    for a in table["Associations"]
                    if a["RouteTableAssociationId"] != body["AssociationId"]
                ]
                if len(left) < len(table["Associations"]):
                    self._put(ROUTES, params, table | {"Associations": left})
                    return {}
        raise aws_error(
            "InvalidAssociationID.NotFound",
            f"The association ID '{body['AssociationId']}' does not exist",
        )

    def _delete_table(self, params: JsonObject, body: JsonObject) -> JsonObject:
        identity = body["RouteTableId"]
        with self._store.lock:
            if self._find(ROUTES, params, identity)["Associations"]:
                raise _dependency(
                    f"The routeTable '{identity}' has dependencies and cannot be deleted."
                )
            self._store.delete(ROUTES, _key(params, identity))
        return {}

    def _create_tags(self, params: JsonObject, body: JsonObject) -> JsonObject:
        new = {t["Key"]: t.get("Value", "") for t in body["Tags"]}
        return self._retag(params, body["Resources"], lambda old: old | new)

    def _delete_tags(self, params: JsonObject, body: JsonObject) -> JsonObject:
        gone = {t["Key"] for t in body.get("Tags", [])}
        return self._retag(
            params, body["Resources"], lambda old: {k: v for k, v in old.items() if k not in gone}
        )

    def _retag(
        self,
        params: JsonObject,
        identities: list[str],
        change: Callable[[dict[str, str]], dict[str, str]],
    ) -> JsonObject:
        kinds = {prefix: kind for kind, (prefix, *_) in _KINDS.items()} | {"lt": TEMPLATES}
        with self._store.lock:
            for identity in identities:
                kind = kinds.get(identity.rpartition("-")[0])
                thing = self._store.get(kind, _key(params, identity)) if kind else None
                if kind is None or thing is None:
                    raise aws_error("InvalidID", f"The ID '{identity}' is not valid")
                tags = change({t["Key"]: t["Value"] for t in thing["Tags"]})
                thing["Tags"] = [{"Key": k, "Value": v} for k, v in sorted(tags.items())]
                self._store.put(kind, _key(params, identity), thing)
        return {}

    def _machines_in(self, params: JsonObject, vpc: str) -> bool:
        inside = {s["SubnetId"] for s in self._all(SUBNETS, params) if s["VpcId"] == vpc}
        return any(
            n["place"] in inside for g in self._store.values("eks/nodegroups") for n in g["nodes"]
        )


def find_subnet(context: Context, region: str, identity: str) -> JsonObject | None:
    return context.store.get(SUBNETS, f"{region}/{identity}")


def reaches_internet(context: Context, region: str, subnet: JsonObject) -> bool:
    """Whether its route table has a default route. Without one a node finds neither registry nor
    cluster.
    """
    for key, table in context.store.items(ROUTES):
        if key.startswith(f"{region}/") and any(
            a["SubnetId"] == subnet["SubnetId"] for a in table["Associations"]
        ):
            return any(r["DestinationCidrBlock"] == "0.0.0.0/0" for r in table["Routes"])
    return False


def _zone_id(zone: str) -> str:
    """eu-west-1a -> euw1-az1. (In a real account the letters are shuffled.)"""
    country, *words, number = zone[:-1].split("-")
    return f"{country}{''.join(w[0] for w in words)}{number}-az{'abcdef'.index(zone[-1]) + 1}"


def _identity(prefix: str) -> str:
    return f"{prefix}-0{secrets.token_hex(8)}"


def _key(params: JsonObject, identity: str) -> str:
    return f"{params['region']}/{identity}"


def _block(text: str | None, *, low: int, high: int) -> ipaddress.IPv4Network:
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


def _tags(body: JsonObject, resource_type: str) -> list[JsonObject]:
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


def _dependency(message: str) -> CloudError:
    return aws_error("DependencyViolation", message)
