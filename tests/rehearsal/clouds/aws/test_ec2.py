"""The simulated EC2: networks, and what depends on them."""

from __future__ import annotations

import pytest

from rehearsal.clouds.core.errors import CloudError


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
    assert aws.cloud.tasks.wait(30)
    aws.call("eks", "DeleteCluster", name="p4d")
    assert aws.cloud.tasks.wait(30)
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


@pytest.mark.parametrize(
    ("operation", "body", "error"),
    [
        ("CreateVpc", {"CidrBlock": "10.0.0.0/8"}, "InvalidVpc.Range"),
        ("CreateVpc", {"CidrBlock": "ten"}, "InvalidParameterValue"),
        ("DescribeVpcs", {"VpcIds": ["vpc-0nothere"]}, "InvalidVpcID.NotFound"),
        ("CreateSubnet", {"VpcId": "VPC", "CidrBlock": "10.9.0.0/24"}, "InvalidSubnet.Range"),
        ("CreateSubnet", {"VpcId": "VPC", "CidrBlock": "10.0.0.0/25"}, "InvalidSubnet.Conflict"),
        (
            "CreateSubnet",
            {"VpcId": "VPC", "CidrBlock": "10.0.7.0/24", "AvailabilityZone": "eu-west-9a"},
            "InvalidParameterValue",
        ),
    ],
)
def test_impossible_networks_are_refused(aws, operation: str, body: dict, error: str) -> None:
    aws.network()
    with pytest.raises(CloudError) as caught:
        aws.call("ec2", operation, **{k: aws.vpc if v == "VPC" else v for k, v in body.items()})
    assert caught.value.reason == error
