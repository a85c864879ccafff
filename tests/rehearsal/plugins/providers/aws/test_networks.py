"""Elastic IPs, NAT gateways, routes to them, and subnets by zone id, as the engine has them."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.plugins.engine.plugin import ProviderError

EIP = "aws:ec2/eip:Eip"
NAT = "aws:ec2/natGateway:NatGateway"
SUBNET = "aws:ec2/subnet:Subnet"
TABLE = "aws:ec2/routeTable:RouteTable"


@pytest.mark.parametrize(
    ("kind", "asked", "changed", "replaces"),
    [
        (EIP, {"domain": "vpc"}, {"tags": {"a": "b"}}, False),
        (NAT, {"allocationId": "a", "subnetId": "s"}, {"tags": {"a": "b"}}, False),
        (NAT, {"allocationId": "a", "subnetId": "s"}, {"allocationId": "b"}, True),
        (NAT, {"allocationId": "a", "subnetId": "s"}, {"subnetId": "t"}, True),
        (
            TABLE,
            {"vpcId": "v", "routes": [{"cidrBlock": "0.0.0.0/0", "natGatewayId": "n"}]},
            {"routes": [{"cidrBlock": "0.0.0.0/0", "natGatewayId": "m"}]},
            False,
        ),
        (
            SUBNET,
            {"vpcId": "v", "cidrBlock": "10.0.0.0/24", "availabilityZoneId": "euw1-az1"},
            {"availabilityZoneId": "euw1-az2"},
            True,
        ),
    ],
)
def test_a_change_is_as_the_official_schema_says(
    engine: Any, kind: str, asked: dict[str, Any], changed: dict[str, Any], replaces: bool
) -> None:
    old = engine.checked(kind, "x", {}, asked)
    kinds = engine.diff(kind, old, engine.checked(kind, "x", old, asked | changed)).detailed
    assert kinds
    assert {k.endswith("-replace") for k in kinds.values()} == {replaces}


def test_the_zone_of_a_subnet_by_id_is_shown_by_name_too(engine: Any) -> None:
    engine.network()
    vpc = engine.call("ec2", "DescribeSubnets")["Subnets"][0]["VpcId"]
    asked = {"vpcId": vpc, "cidrBlock": "10.0.9.0/24", "availabilityZoneId": "euw1-az3"}
    subnet = engine.make(SUBNET, "by-id", **asked)
    assert subnet.outputs["availabilityZoneId"] == "euw1-az3"
    assert subnet.outputs["availabilityZone"].startswith("eu-west-1")


def test_a_gateway_that_fails_says_why_and_stays_to_be_deleted(engine: Any) -> None:
    vpc = engine.make("aws:ec2/vpc:Vpc", "vpc", cidrBlock="10.0.0.0/16")
    subnet = engine.make(SUBNET, "s", vpcId=vpc.id, cidrBlock="10.0.0.0/24")
    address = engine.make(EIP, "e", domain="vpc")
    gateway = engine.make(NAT, "n", allocationId=address.id, subnetId=subnet.id)
    (reason,) = gateway.reasons
    assert "unexpected state 'failed', wanted target 'available'" in reason
    assert f"Gateway.NotAttached: Network {vpc.id} has no Internet gateway attached" in reason


def test_a_subnet_can_be_looked_up_by_its_id_only(engine: Any) -> None:
    look_up = engine.provider.functions["aws:ec2/getSubnet:getSubnet"]
    with pytest.raises(ProviderError, match="by id only"):
        look_up(None, {"tags": {"a": "b"}})
