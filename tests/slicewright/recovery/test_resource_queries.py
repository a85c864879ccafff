"""How a resource whose id only AWS knows is looked for, and known again."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.recovery.resource_queries import ResourceQuery, resource_query

TAGS = {"Name": "main", "slicewright.io/stack": "slicewright/prod"}
LISTED = [{"Key": key, "Value": value} for key, value in TAGS.items()]


def asked(kind: str, region: str | None = "eu-west-1", **inputs: Any) -> ResourceQuery | None:
    resource = {
        "urn": "urn:it",
        "type": kind,
        "inputs": {"tags": {"__defaults": [], **TAGS}, **inputs},
    }
    return resource_query(resource, region, None)


@pytest.mark.parametrize(
    ("kind", "inputs", "one", "identity"),
    [
        (
            "aws:ec2/vpc:Vpc",
            {"cidrBlock": "10.0.0.0/16"},
            {"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16"},
            "vpc-1",
        ),
        (
            "aws:ec2/subnet:Subnet",
            {"vpcId": "vpc-1", "cidrBlock": "10.0.16.0/20"},
            {"SubnetId": "subnet-1", "VpcId": "vpc-1", "CidrBlock": "10.0.16.0/20"},
            "subnet-1",
        ),
        (
            "aws:ec2/internetGateway:InternetGateway",
            {"vpcId": "vpc-1"},
            {"InternetGatewayId": "igw-1", "Attachments": []},
            "igw-1",
        ),
        (
            "aws:ec2/routeTable:RouteTable",
            {"vpcId": "vpc-1"},
            {"RouteTableId": "rtb-1", "VpcId": "vpc-1"},
            "rtb-1",
        ),
        (
            "aws:ec2/eip:Eip",
            {"domain": "vpc"},
            {"AllocationId": "eipalloc-1", "PublicIp": "203.0.113.1"},
            "eipalloc-1",
        ),
        (
            "aws:ec2/natGateway:NatGateway",
            {"subnetId": "subnet-1"},
            {"NatGatewayId": "nat-1", "SubnetId": "subnet-1", "State": "pending"},
            "nat-1",
        ),
        (
            "aws:ec2/launchTemplate:LaunchTemplate",
            {"name": "eks-a-1234"},
            {"LaunchTemplateId": "lt-1", "LaunchTemplateName": "eks-a-1234"},
            "lt-1",
        ),
    ],
)
def test_a_resource_is_identified_by_its_tags_and_place(
    kind: str, inputs: dict[str, Any], one: dict[str, Any], identity: str
) -> None:
    question = asked(kind, **inputs)
    assert question is not None
    assert question.ids([{**one, "Tags": LISTED}]) == [identity]
    # Of another stack, or of nobody known.
    others = [{"Key": "Name", "Value": "main"}, {"Key": "slicewright.io/stack", "Value": "x/y"}]
    assert question.ids([{**one, "Tags": others}, one]) == []
    for key in ("VpcId", "SubnetId", "LaunchTemplateName", "CidrBlock"):
        if key in one and key != f"{kind.rpartition(':')[2]}Id":
            assert question.ids([{**one, key: "another", "Tags": LISTED}]) == []


def test_a_gateway_that_goes_is_not_taken_over() -> None:
    question = asked("aws:ec2/natGateway:NatGateway", subnetId="subnet-1")
    assert question is not None
    gone = {"NatGatewayId": "nat-1", "SubnetId": "subnet-1", "State": "deleted", "Tags": LISTED}
    assert question.ids([gone]) == []
    assert "Filter" in question.parameters  # EC2's name for this one
    assert question.right == "ec2:DescribeNatGateways"


def test_an_internet_gateway_of_another_network_is_not_taken_over() -> None:
    question = asked("aws:ec2/internetGateway:InternetGateway", vpcId="vpc-1")
    assert question is not None
    elsewhere = {"InternetGatewayId": "igw-1", "Attachments": [{"VpcId": "vpc-2"}], "Tags": LISTED}
    assert question.ids([elsewhere]) == []


def test_a_service_account_has_one_association() -> None:
    names = {"clusterName": "main", "namespace": "kube-system", "serviceAccount": "autoscaler"}
    question = asked("aws:eks/podIdentityAssociation:PodIdentityAssociation", **names)
    assert question is not None
    assert question.parameters == names
    one = {"associationId": "a-1", "namespace": "kube-system", "serviceAccount": "autoscaler"}
    assert question.ids([one, {**one, "serviceAccount": "x"}]) == ["main,a-1"]


def test_nothing_is_looked_for_without_a_mark_or_a_place() -> None:
    untagged = {"urn": "u", "type": "aws:ec2/vpc:Vpc", "inputs": {"cidrBlock": "10.0.0.0/16"}}
    assert resource_query(untagged, "eu-west-1", None) is None
    assert asked("aws:ec2/vpc:Vpc", None, cidrBlock="10.0.0.0/16") is None
    assert asked("aws:ec2/flowLog:FlowLog") is None
