"""The aws provider over a simulated cloud in this process, called as the engine calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.engine.requests import ConfigureRequest
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from tests.rehearsal.plugins.bridge.engine import Engine, Resource, cloud_in


class AwsEngine(Engine):
    def call(self, service: str, operation: str, **body: Any) -> dict[str, Any]:
        return self.cloud.call(service, operation, {"region": "eu-west-1"}, body)

    def network(self) -> None:
        vpc = self.make(
            "aws:ec2/vpc:Vpc",
            "vpc",
            cidrBlock="10.0.0.0/16",
            enableDnsHostnames=True,
            tags={"Name": "p4d"},
        )
        gateway = self.make("aws:ec2/internetGateway:InternetGateway", "gateway", vpcId=vpc.id)
        routes = [{"cidrBlock": "0.0.0.0/0", "gatewayId": gateway.id}]
        table = self.make("aws:ec2/routeTable:RouteTable", "table", vpcId=vpc.id, routes=routes)
        self.subnets = []
        for index, zone in enumerate(("eu-west-1a", "eu-west-1b")):
            asked = {
                "vpcId": vpc.id,
                "cidrBlock": f"10.0.{index}.0/24",
                "availabilityZone": zone,
                "mapPublicIpOnLaunch": True,
            }
            subnet = self.make("aws:ec2/subnet:Subnet", f"subnet{index}", **asked)
            self.make(
                "aws:ec2/routeTableAssociation:RouteTableAssociation",
                f"a{index}",
                subnetId=subnet.id,
                routeTableId=table.id,
            )
            self.subnets.append(subnet.id)

    def role(self, name: str, service: str, *policies: str) -> Resource:
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
            ],
        }
        role = self.make("aws:iam/role:Role", name, assumeRolePolicy=json.dumps(trust))
        for policy in policies:
            arn = f"arn:aws:iam::aws:policy/{policy}"
            self.make(
                "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
                policy,
                role=role.outputs["name"],
                policyArn=arn,
            )
        return role

    def base(self) -> Resource:
        """Network, roles and cluster."""
        self.network()
        role = self.role("cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
        node = self.role(
            "node",
            "ec2.amazonaws.com",
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
        )
        self.node_role = node.outputs["arn"]
        asked = {
            "roleArn": role.outputs["arn"],
            "vpcConfig": {"subnetIds": self.subnets},
            "version": "1.36",
            "name": "p4d-cluster",
        }
        return self.make("aws:eks/cluster:Cluster", "cluster", **asked)

    def group(self) -> Properties:
        """The inputs of system eks-a100's group; its cluster must exist."""
        return {
            "clusterName": "p4d-cluster",
            "nodeGroupName": "demo-gpu-workers",
            "nodeRoleArn": self.node_role,
            "subnetIds": self.subnets[:1],
            "amiType": "AL2023_x86_64_NVIDIA",
            "instanceTypes": ["p4d.24xlarge"],
            "capacityType": "ON_DEMAND",
            "diskSize": 200,
            "scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 3},
            "labels": {"slicewright.io/pool": "demo"},
            "taints": [
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"},
                {"key": "startup", "value": "true", "effect": "NO_SCHEDULE"},
            ],
            "updateConfig": {"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
            "tags": {"team": "ml"},
        }

    def nodes(self) -> list[dict[str, Any]]:
        return self.nodes_of("p4d-cluster")


@pytest.fixture
def engine(
    clouds_over_http: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AwsEngine]:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    provider = AwsProvider()
    provider.retry_pause_s = 0.01
    with cloud_in(tmp_path) as cloud:
        provider.configure(ConfigureRequest(inputs={"region": "eu-west-1"}))
        yield AwsEngine(provider, cloud, tmp_path)
