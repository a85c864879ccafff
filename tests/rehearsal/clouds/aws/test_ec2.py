"""The simulated EC2: networks, and what depends on them."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.errors import CloudError


def test_deletion_is_refused_while_something_depends_and_ends_empty(aws) -> None:
    aws.make_cluster()
    aws.make_group()
    gateway = aws.call("ec2", "DescribeInternetGateways")["InternetGateways"][0][
        "InternetGatewayId"
    ]
    table = aws.call("ec2", "DescribeRouteTables")["RouteTables"][0]
    refused = [
        ("ec2", "DeleteVpc", {"VpcId": aws.vpc}, "DependencyViolation"),
        ("ec2", "DeleteSubnet", {"SubnetId": aws.subnets[0]}, "DependencyViolation"),
        (
            "ec2",
            "DetachInternetGateway",
            {"InternetGatewayId": gateway, "VpcId": aws.vpc},
            "DependencyViolation",
        ),
        ("ec2", "DeleteInternetGateway", {"InternetGatewayId": gateway}, "DependencyViolation"),
        ("ec2", "DeleteRouteTable", {"RouteTableId": table["RouteTableId"]}, "DependencyViolation"),
        ("aws-iam", "DeleteRole", {"RoleName": "node"}, "DeleteConflict"),
    ]
    for service, operation, body, error in refused:
        with pytest.raises(CloudError) as caught:
            aws.call(service, operation, **body)
        assert caught.value.reason == error, operation
    aws.call("eks", "DeleteNodegroup", clusterName="p4d", nodegroupName="workers")
    assert aws.cloud.tasks.wait(120)
    aws.call("eks", "DeleteCluster", name="p4d")
    assert aws.cloud.tasks.wait(120)
    for association in table["Associations"]:
        aws.call(
            "ec2", "DisassociateRouteTable", AssociationId=association["RouteTableAssociationId"]
        )
    aws.call("ec2", "DeleteRouteTable", RouteTableId=table["RouteTableId"])
    for subnet in aws.subnets:
        aws.call("ec2", "DeleteSubnet", SubnetId=subnet)
    aws.call("ec2", "DetachInternetGateway", InternetGatewayId=gateway, VpcId=aws.vpc)
    aws.call("ec2", "DeleteInternetGateway", InternetGatewayId=gateway)
    aws.call("ec2", "DeleteVpc", VpcId=aws.vpc)
    for role in ("cluster", "node"):
        for policy in aws.call("aws-iam", "ListAttachedRolePolicies", RoleName=role)[
            "AttachedPolicies"
        ]:
            aws.call("aws-iam", "DetachRolePolicy", RoleName=role, PolicyArn=policy["PolicyArn"])
        aws.call("aws-iam", "DeleteRole", RoleName=role)
    assert aws.cloud.inventory() == {}


def test_ranges_lose_their_host_bits(aws) -> None:
    """EC2 API reference, CreateVpc: 100.68.0.18/18 becomes 100.68.0.0/18."""
    vpc = aws.call("ec2", "CreateVpc", CidrBlock="10.0.0.1/16")["Vpc"]
    assert vpc["CidrBlock"] == "10.0.0.0/16"
    subnet = aws.call("ec2", "CreateSubnet", VpcId=vpc["VpcId"], CidrBlock="10.0.3.7/24")["Subnet"]
    assert subnet["CidrBlock"] == "10.0.3.0/24"


def test_answers_have_no_field_of_the_simulations_own(aws) -> None:
    vpc = aws.call("ec2", "CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]
    assert not [name for name in vpc if name.startswith("_")]


def test_a_new_resource_is_not_described_at_once(aws) -> None:
    write_account(aws.environment, unseen_reads=2)
    vpc = aws.call("ec2", "CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    with pytest.raises(CloudError) as caught:
        aws.call("ec2", "DescribeVpcs", VpcIds=[vpc])
    assert caught.value.reason == "InvalidVpcID.NotFound"
    assert aws.call("ec2", "DescribeVpcs")["Vpcs"] == []
    assert aws.call("ec2", "DescribeVpcs", VpcIds=[vpc])["Vpcs"][0]["VpcId"] == vpc


def test_zone_names_are_the_accounts_own_and_zone_ids_everybodys(aws) -> None:
    def zones() -> dict[str, str]:
        found = aws.call("ec2", "DescribeAvailabilityZones")["AvailabilityZones"]
        return {z["ZoneName"]: z["ZoneId"] for z in found}

    assert zones() == {"eu-west-1a": "euw1-az2", "eu-west-1b": "euw1-az3", "eu-west-1c": "euw1-az1"}
    write_account(aws.environment, **PROMPT, zones={"eu-west-1a": "euw1-az1"})
    assert zones()["eu-west-1a"] == "euw1-az1"
    vpc = aws.call("ec2", "CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = aws.call(
        "ec2", "CreateSubnet", VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZoneId="euw1-az3"
    )
    assert made["Subnet"]["AvailabilityZone"] == "eu-west-1b"


def test_offerings_name_the_zones_that_have_a_type(aws) -> None:
    def locations(kind: str) -> list[str]:
        found = aws.call(
            "ec2",
            "DescribeInstanceTypeOfferings",
            LocationType=kind,
            Filters=[{"Name": "instance-type", "Values": ["p4d.24xlarge"]}],
        )
        return [o["Location"] for o in found["InstanceTypeOfferings"]]

    assert locations("availability-zone-id") == ["euw1-az2"]
    assert locations("availability-zone") == ["eu-west-1a"]
    assert locations("region") == ["eu-west-1"]


def test_a_route_tables_association_is_replaced_by_one_with_another_id(aws) -> None:
    aws.network()
    (old,) = aws.call("ec2", "DescribeRouteTables")["RouteTables"]
    new = aws.call("ec2", "CreateRouteTable", VpcId=aws.vpc)["RouteTable"]["RouteTableId"]
    association = old["Associations"][0]
    made = aws.call(
        "ec2",
        "ReplaceRouteTableAssociation",
        AssociationId=association["RouteTableAssociationId"],
        RouteTableId=new,
    )
    assert made["NewAssociationId"] != association["RouteTableAssociationId"]
    (table,) = aws.call("ec2", "DescribeRouteTables", RouteTableIds=[new])["RouteTables"]
    assert [a["SubnetId"] for a in table["Associations"]] == [association["SubnetId"]]
