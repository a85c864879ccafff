"""NAT gateways of the simulated EC2: how they fail, and what they hold on to."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.errors import CloudError
from tests.rehearsal.clouds.conftest import Aws


def test_a_gateway_without_a_way_to_the_internet_fails_in_the_background(aws: Aws) -> None:
    vpc = aws.call("ec2", "CreateVpc", CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    subnet = aws.call("ec2", "CreateSubnet", VpcId=vpc, CidrBlock="10.9.0.0/24")["Subnet"]
    gateway = made(aws, subnet["SubnetId"], address(aws))
    assert gateway["State"] == "failed"
    assert gateway["FailureCode"] == "Gateway.NotAttached"
    assert gateway["FailureMessage"] == f"Network {vpc} has no Internet gateway attached"


def test_an_address_serves_one_gateway(aws: Aws) -> None:
    aws.network()
    used = address(aws)
    assert made(aws, aws.subnets[0], used)["State"] == "available"
    assert made(aws, aws.subnets[1], used)["FailureCode"] == "Resource.AlreadyAssociated"


def test_the_network_stays_until_its_gateway_is_gone(aws: Aws) -> None:
    aws.network()
    used = address(aws)
    gateway = made(aws, aws.subnets[0], used)
    internet = aws.call("ec2", "DescribeInternetGateways")["InternetGateways"][0]
    leave = {"InternetGatewayId": internet["InternetGatewayId"], "VpcId": aws.vpc}
    with pytest.raises(CloudError, match="mapped public address"):
        aws.call("ec2", "DetachInternetGateway", **leave)
    with pytest.raises(CloudError, match="is in use"):
        aws.call("ec2", "ReleaseAddress", AllocationId=used)
    aws.call("ec2", "DeleteNatGateway", NatGatewayId=gateway["NatGatewayId"])
    assert aws.cloud.tasks.wait(30)
    aws.call("ec2", "ReleaseAddress", AllocationId=used)
    aws.call("ec2", "DetachInternetGateway", **leave)


def test_an_account_has_five_addresses_unless_it_asks_for_more(aws: Aws) -> None:
    write_account(aws.environment, **PROMPT)
    for _ in range(5):
        address(aws)
    with pytest.raises(CloudError) as refused:
        address(aws)
    assert refused.value.reason == "AddressLimitExceeded"


def address(aws: Aws) -> str:
    return str(aws.call("ec2", "AllocateAddress", Domain="vpc")["AllocationId"])


def made(aws: Aws, subnet: str, allocation: str) -> dict[str, object]:
    """A gateway, once it is settled."""
    gateway = aws.call("ec2", "CreateNatGateway", SubnetId=subnet, AllocationId=allocation)
    assert aws.cloud.tasks.wait(30)
    ids = [gateway["NatGateway"]["NatGatewayId"]]
    return dict(aws.call("ec2", "DescribeNatGateways", NatGatewayIds=ids)["NatGateways"][0])
