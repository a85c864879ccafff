"""A create request whose answer was lost is sent again, and makes nothing twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config

from slicewright.rehearsal.clouds.core.errors import CloudError
from tests.rehearsal.clouds.aws.protocols.over_http import REGION, OverHttp, over_http, session

TRUST = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "eks.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ]
}


def retrying(over: OverHttp, service: str) -> Any:
    """botocore's client as the official provider's is: it sends again by itself."""
    keys = over.access.credentials
    return session().create_client(
        service,
        region_name=REGION,
        endpoint_url=over.access.url,
        aws_access_key_id=keys.aws_access_key_id,
        aws_secret_access_key=keys.aws_secret_access_key,
        config=Config(retries={"mode": "standard", "total_max_attempts": 3}, proxies={}),
    )


@pytest.mark.usefixtures("clouds_over_http")
def test_a_cluster_whose_answer_was_lost_is_made_once(tmp_path: Path) -> None:
    with over_http(tmp_path) as over:
        ec2, iam, eks = (retrying(over, s) for s in ("ec2", "iam", "eks"))
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone=f"{REGION}{zone}"
            )["Subnet"]["SubnetId"]
            for i, zone in enumerate("ab")
        ]
        role = iam.create_role(RoleName="c", AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]
        policy = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
        iam.attach_role_policy(RoleName="c", PolicyArn=policy)
        lost = {"fault": "connection-reset", "times": 1, "carried_out": True}
        faults = [{**lost, "method": m} for m in ("eks.CreateCluster", "ec2.CreateRouteTable")]
        (tmp_path / "faults.json").write_text(json.dumps(faults))
        made = eks.create_cluster(
            name="p4d", roleArn=role["Arn"], resourcesVpcConfig={"subnetIds": subnets}
        )
        assert made["cluster"]["name"] == "p4d"
        assert [s.operation for s in over.said].count("CreateCluster") == 1
        ec2.create_route_table(VpcId=vpc)
        inventory = over.cloud.inventory()
        assert (len(inventory["eks.cluster"]), len(inventory["ec2.routeTable"])) == (1, 1)


def test_the_same_token_with_another_request_is_refused(aws) -> None:
    aws.make_cluster()
    asked = {
        "clusterName": "p4d",
        "nodegroupName": "workers",
        "nodeRole": aws.node_role,
        "subnets": aws.subnets[:1],
        "clientRequestToken": "0f8fad5b-d9cb-469f-a165-70867728950e",
    }
    first = aws.call("eks", "CreateNodegroup", **asked)
    assert aws.call("eks", "CreateNodegroup", **asked) == first
    with pytest.raises(CloudError, match="inconsistent with arguments used in") as caught:
        aws.call("eks", "CreateNodegroup", **{**asked, "nodegroupName": "other"})
    assert caught.value.reason == "InvalidParameterException"
    # Another token is another request, of a name that is taken.
    with pytest.raises(CloudError, match="already exists") as caught:
        aws.call("eks", "CreateNodegroup", **{**asked, "clientRequestToken": "other"})
    assert caught.value.reason == "ResourceInUseException"


def test_a_request_that_was_refused_can_be_sent_again(aws) -> None:
    aws.make_cluster()
    again = {"clientRequestToken": "t"}
    with pytest.raises(CloudError):
        aws.make_group(**again, subnets=["subnet-0"])
    assert aws.make_group(**again)["status"] == "ACTIVE"


def test_ec2_has_its_own_error_of_a_token_that_is_used_otherwise(aws) -> None:
    aws.network()
    aws.call("ec2", "CreateRouteTable", VpcId=aws.vpc, ClientToken="t")
    other = aws.call("ec2", "CreateVpc", CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    with pytest.raises(CloudError) as caught:
        aws.call("ec2", "CreateRouteTable", VpcId=other, ClientToken="t")
    assert caught.value.reason == "IdempotentParameterMismatch"
