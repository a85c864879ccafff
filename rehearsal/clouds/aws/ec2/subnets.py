"""Subnets."""

from __future__ import annotations

import ipaddress

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.nat_gateways import nat_gateways
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import interfaces
from slicewright.rehearsal.clouds.aws.ec2.operations import Operations
from slicewright.rehearsal.clouds.aws.ec2.resources import cidr_block, new_id, tags_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import (
    CLUSTERS,
    NODE_GROUPS,
    ROUTE_TABLES,
    SUBNETS,
    VPCS,
)
from slicewright.rehearsal.clouds.aws.zones import zone_ids
from slicewright.rehearsal.clouds.core.context import Context, Methods


class Subnets(Operations):
    kind = SUBNETS

    def methods(self) -> Methods:
        return {
            **super().methods(),
            "CreateSubnet": self._create,
            "ModifySubnetAttribute": self._modify,
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
        zones = zone_ids(account_of(self._context), params["region"])
        for field, position in (("availabilityZone", 0), ("availabilityZoneId", 1)):
            requested = body.get(field[:1].upper() + field[1:])
            if requested:
                zone = next((z for z in zones.items() if z[position] == requested), None)
                if zone is None:
                    raise aws_error(
                        "InvalidParameterValue",
                        f"Value ({requested}) for parameter {field} is invalid. Subnets can "
                        "currently only be created in the following availability zones: "
                        f"{', '.join(sorted(z[position] for z in zones.items()))}.",
                    )
                return zone
        return next(iter(zones.items()))

    def _modify(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._ec2.changing(SUBNETS, params, body["SubnetId"]) as subnet:
            subnet |= {
                k: bool(v.get("Value"))
                for k, v in body.items()
                if k != "SubnetId" and isinstance(v, dict)
            }
        return {}

    def _check_unused(self, params: JsonObject, resource: JsonObject) -> None:
        subnet, region = resource["SubnetId"], params["region"]
        users = [
            c["cluster"]["resourcesVpcConfig"]["subnetIds"] for c in self._store.values(CLUSTERS)
        ]
        users += [g["nodegroup"]["subnets"] for g in self._store.values(NODE_GROUPS)]
        if (
            any(subnet in subnets for subnets in users)
            or interfaces(self._context, region, subnet=subnet)
            or nat_gateways(self._context, region, subnet=subnet)
        ):
            raise self._has_dependencies(resource)

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Also ends the subnet's association with a route table."""
        with self._store.lock:
            answer = super()._delete(params, body)
            for table in self._ec2.all(ROUTE_TABLES, params):
                table["Associations"] = [
                    a for a in table["Associations"] if a["SubnetId"] != body["SubnetId"]
                ]
                self._ec2.put(ROUTE_TABLES, params, table)
        return answer


def find_subnet(context: Context, region: str, identity: str) -> JsonObject | None:
    return context.store.get(SUBNETS, f"{region}/{identity}")
