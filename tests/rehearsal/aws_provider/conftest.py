"""The aws stand-in over a simulated cloud in this process, driven as the engine drives it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.aws_provider.provider import AwsProvider
from rehearsal.cloud.client import CloudClient
from rehearsal.cloud.cloud import Cloud
from rehearsal.cloud.paper_planes import PaperNodes, PaperPlanes
from rehearsal.cloud.server import Server
from rehearsal.engine.plugin import Difference, InitFailed, Properties


class Resource:
    """One resource of a stack: what the engine keeps of it between operations."""

    def __init__(self, engine: Engine, kind: str, name: str, asked: Properties) -> None:
        self.engine = engine
        self.kind = kind
        self.name = name
        checked = engine.checked(kind, name, {}, asked)
        self.inputs = checked
        try:
            made = engine.provider.create("urn", kind, name, checked, 0, False)
            self.id, self.outputs, self.trouble = made.id, made.outputs, ()
        except InitFailed as e:
            self.id, self.outputs, self.trouble = e.id, e.outputs, e.reasons

    def plan(self, asked: Properties) -> Difference:
        self.next = self.engine.checked(self.kind, self.name, self.inputs, asked)
        return self.engine.provider.diff("urn", self.kind, self.id, self.outputs, self.inputs, self.next, ())

    def update(self, asked: Properties) -> Difference:
        found = self.plan(asked)
        assert not any(k.endswith("replace") for k in (found.detailed or {}).values()), found.detailed
        arguments = ("urn", self.kind, self.id, self.outputs, self.inputs, self.next, 0, (), False)
        self.outputs = self.engine.provider.update(*arguments)
        self.inputs = self.next
        return found

    def refresh(self) -> Difference | None:
        """None: gone. The difference is the drift: from what was asked for to what is there."""
        found = self.engine.provider.read("urn", self.kind, self.id, self.outputs, self.inputs, 0)
        if found is None:
            return None
        return self.engine.provider.diff("urn", self.kind, self.id, found.outputs, self.inputs, found.inputs, ())

    def delete(self) -> None:
        self.engine.provider.delete("urn", self.kind, self.id, self.outputs, self.inputs, 0)


class Engine:
    """Makes resources through the provider."""

    def __init__(self, provider: AwsProvider, cloud: Cloud, environment: Path) -> None:
        self.provider = provider
        self.cloud = cloud
        self.environment = environment
        self.client = CloudClient(environment)
        self.made: list[Resource] = []
        self._seed = 0

    def checked(self, kind: str, name: str, olds: Properties, asked: Properties) -> Properties:
        self._seed += 1
        checked = self.provider.check("urn", kind, name, olds, dict(asked), self._seed.to_bytes(4, "big"), None)
        assert not checked.failures, checked.failures
        return checked.inputs

    def failures(self, kind: str, asked: Properties) -> dict[str, str]:
        checked = self.provider.check("urn", kind, "x", {}, dict(asked), b"seed", None)
        return {f.property: f.reason for f in checked.failures}

    def make(self, kind: str, label: str, /, **asked: Any) -> Resource:
        resource = Resource(self, kind, label, asked)
        self.made.append(resource)
        return resource

    def call(self, service: str, operation: str, **body: Any) -> dict[str, Any]:
        return self.client.call(service, operation, {"region": "eu-west-1"}, body)

    def network(self) -> None:
        vpc = self.make("aws:ec2/vpc:Vpc", "vpc", cidrBlock="10.0.0.0/16", enableDnsHostnames=True, tags={"Name": "p4d"})
        gateway = self.make("aws:ec2/internetGateway:InternetGateway", "gateway", vpcId=vpc.id)
        routes = [{"cidrBlock": "0.0.0.0/0", "gatewayId": gateway.id}]
        table = self.make("aws:ec2/routeTable:RouteTable", "table", vpcId=vpc.id, routes=routes)
        self.subnets = []
        for index, zone in enumerate(("eu-west-1a", "eu-west-1b")):
            asked = {"vpcId": vpc.id, "cidrBlock": f"10.0.{index}.0/24", "availabilityZone": zone, "mapPublicIpOnLaunch": True}
            subnet = self.make("aws:ec2/subnet:Subnet", f"subnet{index}", **asked)
            self.make(
                "aws:ec2/routeTableAssociation:RouteTableAssociation", f"a{index}", subnetId=subnet.id, routeTableId=table.id
            )
            self.subnets.append(subnet.id)

    def role(self, name: str, service: str, *policies: str) -> Resource:
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}],
        }
        role = self.make("aws:iam/role:Role", name, assumeRolePolicy=json.dumps(trust))
        for policy in policies:
            arn = f"arn:aws:iam::aws:policy/{policy}"
            self.make("aws:iam/rolePolicyAttachment:RolePolicyAttachment", policy, role=role.outputs["name"], policyArn=arn)
        return role

    def base(self) -> Resource:
        """Network, roles and cluster."""
        self.network()
        role = self.role("cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
        node = self.role("node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
        self.node_role = node.outputs["arn"]
        asked = {
            "roleArn": role.outputs["arn"],
            "vpcConfig": {"subnetIds": self.subnets},
            "version": "1.36",
            "name": "p4d-cluster",
        }
        return self.make("aws:eks/cluster:Cluster", "cluster", **asked)

    def group(self) -> Properties:
        """The inputs of system S1's group; its cluster must exist."""
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
        return PaperNodes(self.environment / "clusters" / "p4d-cluster" / "nodes-on-paper").read()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    cloud = Cloud(tmp_path, PaperPlanes(tmp_path), ready_timeout_s=0.1)
    server = Server(tmp_path / "cloud.sock", cloud)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    provider = AwsProvider()
    provider.retry_pause_s = 0.01
    provider.configure({}, {"region": "eu-west-1"})
    yield Engine(provider, cloud, tmp_path)
    server.shutdown()
    server.server_close()
