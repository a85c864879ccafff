"""VPCs."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import interfaces, security_groups
from slicewright.rehearsal.clouds.aws.ec2.operations import Operations
from slicewright.rehearsal.clouds.aws.ec2.resources import cidr_block, new_id, tags_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import ROUTE_TABLES, SUBNETS, VPCS
from slicewright.rehearsal.clouds.core.context import Methods


class Vpcs(Operations):
    kind = VPCS

    def methods(self) -> Methods:
        return {
            **super().methods(),
            "CreateVpc": self._create,
            "ModifyVpcAttribute": self._modify,
            "DescribeVpcAttribute": self._describe_attribute,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        block = cidr_block(body.get("CidrBlock"), "cidrBlock")
        if not 16 <= block.prefixlen <= 28:
            raise aws_error("InvalidVpc.Range", f"The CIDR '{body['CidrBlock']}' is invalid.")
        limit = account_of(self._context).vpcs
        vpc = {
            "VpcId": new_id("vpc"),
            "CidrBlock": str(block),
            "State": "available",
            "OwnerId": ACCOUNT,
            "InstanceTenancy": body.get("InstanceTenancy", "default"),
            "IsDefault": False,
            "DhcpOptionsId": "dopt-0a1b2c3d4e5f60718",
            "Tags": tags_of(body, "vpc"),
            "_attributes": {"EnableDnsSupport": True, "EnableDnsHostnames": False},
        }
        with self._store.lock:
            if len(self._ec2.all(VPCS, params)) >= limit:
                raise aws_error("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
            return {"Vpc": self._ec2.create(VPCS, params, vpc)}

    def _modify(self, params: JsonObject, body: JsonObject) -> JsonObject:
        if len(body) != 2:
            raise aws_error(
                "InvalidParameterCombination",
                "Exactly one attribute can be modified in a request; this one has "
                f"{', '.join(sorted(set(body) - {'VpcId'})) or 'none'}.",
            )
        with self._ec2.changing(VPCS, params, body["VpcId"]) as vpc:
            vpc["_attributes"] |= {k: bool(v.get("Value")) for k, v in body.items() if k != "VpcId"}
        return {}

    def _describe_attribute(self, params: JsonObject, body: JsonObject) -> JsonObject:
        vpc = self._ec2.find(VPCS, params, body["VpcId"])
        name = body["Attribute"][:1].upper() + body["Attribute"][1:]
        return {"VpcId": vpc["VpcId"], name: {"Value": vpc["_attributes"].get(name, False)}}

    def _check_unused(self, params: JsonObject, resource: JsonObject) -> None:
        vpc, region = resource["VpcId"], params["region"]
        if (
            any(s["VpcId"] == vpc for s in self._ec2.all(SUBNETS, params))
            or any(t["VpcId"] == vpc for t in self._ec2.all(ROUTE_TABLES, params))
            or self._ec2.attached_gateways(params, vpc)
            or interfaces(self._context, region, vpc=vpc)
            or security_groups(self._context, region, vpc=vpc)
        ):
            raise self._has_dependencies(resource)
