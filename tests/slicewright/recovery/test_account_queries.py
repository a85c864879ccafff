"""An account without any of what is looked for is asked, through botocore."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewright.recovery import account_queries
from slicewright.recovery.resource_queries import resource_query
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from tests.slicewright.served_clouds import served_clouds

KINDS = {
    "aws:ec2/vpc:Vpc": {"cidrBlock": "10.0.0.0/16"},
    "aws:ec2/subnet:Subnet": {"vpcId": "vpc-1", "cidrBlock": "10.0.16.0/20"},
    "aws:ec2/internetGateway:InternetGateway": {"vpcId": "vpc-1"},
    "aws:ec2/routeTable:RouteTable": {"vpcId": "vpc-1"},
    "aws:ec2/eip:Eip": {"domain": "vpc"},
    "aws:ec2/natGateway:NatGateway": {"subnetId": "subnet-1"},
    "aws:ec2/launchTemplate:LaunchTemplate": {"name": "eks-a-1234"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_account_that_has_none_says_so(
    kind: str, clouds_over_http: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EC2 gives all elastic IPs at once, so botocore has no pages of them."""
    resource = {"urn": "u", "type": kind, "inputs": {"tags": {"Name": "main"}, **KINDS[kind]}}
    question = resource_query(resource, "eu-west-1", None)
    assert question is not None
    with served_clouds(tmp_path, FakeControlPlanes(tmp_path), monkeypatch):
        assert account_queries._candidates(question) == []
