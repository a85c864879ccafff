"""AWS's answers to wrong requests, by its own error codes; none of them changes anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.service import Cloud
from tests.rehearsal.clouds.aws.wrong_requests import WRONG_REQUESTS, Wrong
from tests.rehearsal.clouds.conftest import Aws

TRUST = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}


class World:
    """A cluster with a node group; what a request may name, by name."""

    def __init__(self, aws: Aws) -> None:
        self.aws = aws
        aws.make_cluster()
        aws.make_group()
        tables = aws.call("ec2", "DescribeRouteTables")["RouteTables"]
        gateways = aws.call("ec2", "DescribeInternetGateways")["InternetGateways"]
        template = aws.call(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName="template",
            LaunchTemplateData={"InstanceType": "m6i.large"},
        )
        spare = aws.call("ec2", "CreateInternetGateway")
        aws.call("eks", "CreateAddon", clusterName="p4d", addonName="vpc-cni")
        assert aws.cloud.tasks.wait(120)
        self.names: Mapping[str, Any] = {
            "$vpc": aws.vpc,
            "$subnet": aws.subnets[0],
            "$other_subnet": aws.subnets[1],
            "$table": tables[0]["RouteTableId"],
            "$gateway": gateways[0]["InternetGatewayId"],
            "$spare_gateway": spare["InternetGateway"]["InternetGatewayId"],
            "$template": template["LaunchTemplate"]["LaunchTemplateId"],
            "$third_subnet": aws.call(
                "ec2",
                "CreateSubnet",
                VpcId=aws.vpc,
                CidrBlock="10.0.40.0/24",
                AvailabilityZone="eu-west-1c",
            )["Subnet"]["SubnetId"],
            "$address": aws.call("ec2", "AllocateAddress", Domain="vpc")["AllocationId"],
            "$node_role": aws.node_role,
            "$cluster_role": "arn:aws:iam::123456789012:role/cluster",
            "$bare_role": aws.role("bare", "eks.amazonaws.com"),
            "$trust": json.dumps(TRUST),
        }
        aws.call(
            "ec2",
            "CreateNatGateway",
            SubnetId=self.names["$third_subnet"],
            AllocationId=self.names["$address"],
        )
        assert aws.cloud.tasks.wait(30)

    def named(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {k: self.named(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.named(v) for v in value]
        return self.names.get(value, value) if isinstance(value, str) else value

    def files(self) -> dict[str, str]:
        """Everything that is stored."""
        store = self.aws.environment / "cloud"
        return {str(p): p.read_text() for p in sorted(store.rglob("*.json"))}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    environment: Path = tmp_path_factory.mktemp("aws")
    write_account(environment, **PROMPT)
    cloud = Cloud(environment, FakeControlPlanes(environment), ready_timeout_s=0.2)
    yield World(Aws(cloud, environment))
    assert cloud.tasks.wait(120)


@pytest.mark.parametrize("wrong", WRONG_REQUESTS, ids=lambda w: w.what)
def test_a_wrong_request_meets_the_clouds_own_error(world: World, wrong: Wrong) -> None:
    before = world.files()
    with pytest.raises(CloudError) as caught:
        world.aws.cloud.call(
            wrong.service, wrong.operation, {"region": wrong.region}, world.named(wrong.body)
        )
    assert (caught.value.reason, caught.value.code) == (wrong.error, wrong.status)
    assert wrong.words in caught.value.message
    assert world.files() == before


def test_every_row_has_a_name_of_its_own_and_a_source() -> None:
    assert len({w.what for w in WRONG_REQUESTS}) == len(WRONG_REQUESTS)
    assert all(w.source for w in WRONG_REQUESTS)
