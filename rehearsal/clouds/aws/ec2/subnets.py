"""Subnets."""

from __future__ import annotations

import ipaddress

from kubeapi import JsonObject
from rehearsal.clouds.aws.account import account_of
from rehearsal.clouds.aws.ec2.nat_gateways import nat_gateways
from rehearsal.clouds.aws.ec2.network_interfaces import interfaces
from rehearsal.clouds.aws.ec2.resources import (
    Resources,
    cidr_block,
    dependency_violation,
    key_of,
    new_id,
    tags_of,
)
from rehearsal.clouds.aws.errors import aws_error
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.aws.state import CLUSTERS, NODE_GROUPS, ROUTE_TABLES, SUBNETS, VPCS
from rehearsal.clouds.aws.zones import zone_ids
from rehearsal.clouds.core.context import Context, Methods


class Subnets:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._ec2 = Resources(context)

    def methods(self) -> Methods:
        return {
            "CreateSubnet": self._create,
            "ModifySubnetAttribute": self._modify,
            "DescribeSubnets": self._ec2.describe(SUBNETS),
            "DeleteSubnet": self._delete,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        block = cidr_block(body.get("CidrBlock"), "cidrBlock")
        if not 16 <= block.prefixlen <= 28:
            raise aws_error("InvalidSubnet.Range", f"The CIDR '{body['CidrBlock']}' is invalid.")
        zone, zone_id = self._zone(params, body)
        with self._store.lock:
            vpc = self._ec2.find(VPCS, params, body["VpcId"])
            if not block.subnet_of(ipaddress.IPv4Network(vpc["CidrBlock"])):
                raise aws_error("InvalidSubnet.Range", f"The CIDR '{block}' is invalid.")
            for other in self._ec2.all(SUBNETS, params):
                if other["VpcId"] == vpc["VpcId"] and block.overlaps(
                    ipaddress.ip_network(other["CidrBlock"])
                ):
                    raise aws_error(
                        "InvalidSubnet.Conflict",
                        f"The CIDR '{block}' conflicts with another subnet",
                    )
            identity = new_id("subnet")
            subnet = {
                "SubnetId": identity,
                "SubnetArn": f"arn:aws:ec2:{params['region']}:{ACCOUNT}:subnet/{identity}",
                "VpcId": vpc["VpcId"],
                "CidrBlock": str(block),
                "AvailabilityZone": zone,
                "AvailabilityZoneId": zone_id,
                "AvailableIpAddressCount": block.num_addresses - 5,
                "MapPublicIpOnLaunch": False,
                "State": "available",
                "OwnerId": ACCOUNT,
                "Tags": tags_of(body, "subnet"),
            }
            return {"Subnet": self._ec2.create(SUBNETS, params, subnet)}

    def _zone(self, params: JsonObject, body: JsonObject) -> tuple[str, str]:
        """Name and id of the zone that a request names by either."""
        known = zone_ids(account_of(self._context), params["region"])
        for field, wanted in (("availabilityZone", 0), ("availabilityZoneId", 1)):
            asked = body.get(field[:1].upper() + field[1:])
            if asked:
                found = next((z for z in known.items() if z[wanted] == asked), None)
                if found is None:
                    raise aws_error(
                        "InvalidParameterValue",
                        f"Value ({asked}) for parameter {field} is invalid. Subnets can currently "
                        "only be created in the following availability zones: "
                        f"{', '.join(sorted(z[wanted] for z in known.items()))}.",
                    )
                return found
        return next(iter(known.items()))

    def _modify(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            subnet = self._ec2.find(SUBNETS, params, body["SubnetId"])
            subnet |= {
                k: bool(v.get("Value"))
                for k, v in body.items()
                if k != "SubnetId" and isinstance(v, dict)
            }
            self._ec2.put(SUBNETS, params, subnet)
        return {}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        identity = body["SubnetId"]
        with self._store.lock:
            self._ec2.find(SUBNETS, params, identity)
            users = [
                c["cluster"]["resourcesVpcConfig"]["subnetIds"]
                for c in self._store.values(CLUSTERS)
            ]
            users += [g["nodegroup"]["subnets"] for g in self._store.values(NODE_GROUPS)]
            if (
                any(identity in subnets for subnets in users)
                or interfaces(self._context, params["region"], subnet=identity)
                or nat_gateways(self._context, params["region"], subnet=identity)
            ):
                raise dependency_violation(
                    f"The subnet '{identity}' has dependencies and cannot be deleted."
                )
            for table in self._ec2.all(ROUTE_TABLES, params):
                table["Associations"] = [
                    a for a in table["Associations"] if a["SubnetId"] != identity
                ]
                self._ec2.put(ROUTE_TABLES, params, table)
            self._store.delete(SUBNETS, key_of(params, identity))
        return {}


def find_subnet(context: Context, region: str, identity: str) -> JsonObject | None:
    return context.store.get(SUBNETS, f"{region}/{identity}")
