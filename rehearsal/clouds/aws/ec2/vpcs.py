"""VPCs."""

from __future__ import annotations

from kubeapi import JsonObject
from rehearsal.clouds.aws.account import account_of
from rehearsal.clouds.aws.ec2.network_interfaces import interfaces, security_groups
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
from rehearsal.clouds.aws.state import INTERNET_GATEWAYS, ROUTE_TABLES, SUBNETS, VPCS
from rehearsal.clouds.core.context import Context, Methods


class Vpcs:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._ec2 = Resources(context)

    def methods(self) -> Methods:
        return {
            "CreateVpc": self._create,
            "ModifyVpcAttribute": self._modify,
            "DescribeVpcAttribute": self._describe_attribute,
            "DescribeVpcs": self._ec2.describe(VPCS),
            "DeleteVpc": self._delete,
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
        with self._store.lock:
            vpc = self._ec2.find(VPCS, params, body["VpcId"])
            vpc["_attributes"] |= {k: bool(v.get("Value")) for k, v in body.items() if k != "VpcId"}
            self._ec2.put(VPCS, params, vpc)
        return {}

    def _describe_attribute(self, params: JsonObject, body: JsonObject) -> JsonObject:
        vpc = self._ec2.find(VPCS, params, body["VpcId"])
        name = body["Attribute"][:1].upper() + body["Attribute"][1:]
        return {"VpcId": vpc["VpcId"], name: {"Value": vpc["_attributes"].get(name, False)}}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        identity = body["VpcId"]
        with self._store.lock:
            self._ec2.find(VPCS, params, identity)
            inside = [s for s in self._ec2.all(SUBNETS, params) if s["VpcId"] == identity]
            inside += [t for t in self._ec2.all(ROUTE_TABLES, params) if t["VpcId"] == identity]
            inside += [
                g
                for g in self._ec2.all(INTERNET_GATEWAYS, params)
                if any(a["VpcId"] == identity for a in g["Attachments"])
            ]
            inside += interfaces(self._context, params["region"], vpc=identity)
            inside += security_groups(self._context, params["region"], vpc=identity)
            if inside:
                raise dependency_violation(
                    f"The vpc '{identity}' has dependencies and cannot be deleted."
                )
            self._store.delete(VPCS, key_of(params, identity))
        return {}
