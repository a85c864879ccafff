"""The simulated clouds in this process, with fake control planes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes, fake_nodes
from slicewright.rehearsal.clouds.service import Cloud

Call = Callable[..., JsonObject]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def cloud(environment: Path) -> Iterator[Cloud]:
    """Its AWS account has no delays: tests of those write another one (`write_account`)."""
    write_account(environment, **PROMPT)
    cloud = Cloud(environment, FakeControlPlanes(environment), ready_timeout_s=0.2)
    yield cloud
    assert cloud.tasks.wait(120)


class Gcp:
    """Calls to the simulated GCP, in one project and region."""

    project = "projects/acme"
    region = "us-central1"
    location = region
    """Of the cluster: the region, or a zone of it."""

    def __init__(self, cloud: Cloud, environment: Path) -> None:
        self.cloud = cloud
        self.environment = environment

    def call(
        self, service: str, method: str, params: JsonObject | None = None, **body: Any
    ) -> JsonObject:
        return self.cloud.call(service, method, params or {}, body)

    @property
    def parent(self) -> str:
        return f"{self.project}/locations/{self.location}"

    @property
    def cluster(self) -> str:
        return f"{self.parent}/clusters/main"

    def network(self) -> None:
        self.call(
            "compute",
            "networks.insert",
            {"project": "acme"},
            name="net",
            autoCreateSubnetworks=False,
        )
        where = {"project": "acme", "region": self.region}
        network = "projects/acme/global/networks/net"
        self.call(
            "compute",
            "subnetworks.insert",
            where,
            name="sub",
            network=network,
            ipCidrRange="10.10.0.0/20",
        )

    def wait(self, operation: JsonObject) -> JsonObject:
        """The operation when it is done; fails on its error."""
        done = self.settle(operation)
        assert "error" not in done, done
        return done

    def settle(self, operation: JsonObject) -> JsonObject:
        name = f"{self.parent}/operations/{operation['name']}"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = self.call("container", "projects.locations.operations.get", {"name": name})
            if found["status"] == "DONE":
                return found
            time.sleep(0.005)
        raise AssertionError(f"{name} is still running")

    def make_cluster(self, *, network_exists: bool = False, **fields: Any) -> JsonObject:
        if not network_exists:
            self.network()
        asked = {
            "name": "main",
            "initialNodeCount": 1,
            "network": "net",
            "subnetwork": "sub",
            **fields,
        }
        self.wait(
            self.call(
                "container",
                "projects.locations.clusters.create",
                {"parent": self.parent},
                cluster=asked,
            )
        )
        return self.call("container", "projects.locations.clusters.get", {"name": self.cluster})

    def make_pool(self, **fields: Any) -> JsonObject:
        asked = {"name": "pool", "initialNodeCount": 1, "locations": ["us-central1-c"], **fields}
        self.wait(
            self.call(
                "container",
                "projects.locations.clusters.nodePools.create",
                {"parent": self.cluster},
                nodePool=asked,
            )
        )
        return self.pool(asked["name"])

    def pool(self, name: str = "pool") -> JsonObject:
        return self.call(
            "container",
            "projects.locations.clusters.nodePools.get",
            {"name": f"{self.cluster}/nodePools/{name}"},
        )

    def on_pool(self, method: str, name: str = "pool", **body: Any) -> JsonObject:
        where = {"name": f"{self.cluster}/nodePools/{name}"}
        return self.call(
            "container", f"projects.locations.clusters.nodePools.{method}", where, **body
        )

    def nodes(self, pool: str | None = None) -> list[JsonObject]:
        found = fake_nodes(self.environment, "main").read()
        return [
            n
            for n in found
            if pool in (None, n["metadata"]["labels"]["cloud.google.com/gke-nodepool"])
        ]


H100 = {
    "machineType": "a3-highgpu-8g",
    "spot": True,
    "accelerators": [
        {
            "acceleratorType": "nvidia-h100-80gb",
            "acceleratorCount": "8",
            "gpuPartitionSize": "3g.40gb",
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
        }
    ],
}


@pytest.fixture
def gcp(cloud: Cloud, environment: Path) -> Gcp:
    return Gcp(cloud, environment)


@pytest.fixture
def h100() -> JsonObject:
    """The node config of the GPU pool in stacks/Pulumi.gke-h100.yaml."""
    found: JsonObject = json.loads(json.dumps(H100))
    return found


class Aws:
    """Calls to the simulated AWS, in one region."""

    where = {"region": "eu-west-1"}  # noqa: RUF012 - a constant

    def __init__(self, cloud: Cloud, environment: Path) -> None:
        self.cloud = cloud
        self.environment = environment
        self.subnets: list[str] = []
        self.vpc = ""

    def call(self, service: str, method: str, **body: Any) -> JsonObject:
        return self.cloud.call(service, method, dict(self.where), body)

    def role(self, name: str, service: str, *policies: str) -> str:
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
            ],
        }
        made = self.call(
            "aws-iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=json.dumps(trust)
        )
        for policy in policies:
            self.call(
                "aws-iam",
                "AttachRolePolicy",
                RoleName=name,
                PolicyArn=f"arn:aws:iam::aws:policy/{policy}",
            )
        arn: str = made["Role"]["Arn"]
        return arn

    def network(self) -> None:
        self.vpc = self.call("ec2", "CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        gateway = self.call("ec2", "CreateInternetGateway")["InternetGateway"]["InternetGatewayId"]
        self.call("ec2", "AttachInternetGateway", InternetGatewayId=gateway, VpcId=self.vpc)
        table = self.call("ec2", "CreateRouteTable", VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        self.call(
            "ec2",
            "CreateRoute",
            RouteTableId=table,
            DestinationCidrBlock="0.0.0.0/0",
            GatewayId=gateway,
        )
        for index, zone in enumerate(("eu-west-1a", "eu-west-1b")):
            made = self.call(
                "ec2",
                "CreateSubnet",
                VpcId=self.vpc,
                CidrBlock=f"10.0.{index}.0/24",
                AvailabilityZone=zone,
            )
            subnet = made["Subnet"]["SubnetId"]
            self.call(
                "ec2", "ModifySubnetAttribute", SubnetId=subnet, MapPublicIpOnLaunch={"Value": True}
            )
            self.call("ec2", "AssociateRouteTable", RouteTableId=table, SubnetId=subnet)
            self.subnets.append(subnet)

    def make_cluster(self) -> JsonObject:
        self.network()
        role = self.role("cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
        self.node_role = self.role(
            "node",
            "ec2.amazonaws.com",
            "AmazonEKSWorkerNodePolicy",
            "AmazonEC2ContainerRegistryPullOnly",
        )
        self.call(
            "eks",
            "CreateCluster",
            name="p4d",
            roleArn=role,
            resourcesVpcConfig={"subnetIds": self.subnets},
            version="1.36",
        )
        return self.settle("cluster")

    def make_group(self, **fields: Any) -> JsonObject:
        scaling = {"minSize": 1, "desiredSize": 1, "maxSize": 1}
        asked = {
            "clusterName": "p4d",
            "nodegroupName": "workers",
            "nodeRole": self.node_role,
            "subnets": self.subnets[:1],
            "scalingConfig": scaling,
            **fields,
        }
        self.call("eks", "CreateNodegroup", **asked)
        return self.settle("nodegroup", asked["nodegroupName"])

    def settle(self, what: str, group: str = "workers") -> JsonObject:
        """The cluster or node group when it no longer changes."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if what == "cluster":
                found = self.call("eks", "DescribeCluster", name="p4d")["cluster"]
            else:
                found = self.call(
                    "eks", "DescribeNodegroup", clusterName="p4d", nodegroupName=group
                )["nodegroup"]
            if found["status"] not in ("CREATING", "UPDATING", "DELETING"):
                return dict(found)
            time.sleep(0.005)
        raise AssertionError(f"{what} is still changing")

    def nodes(self) -> list[JsonObject]:
        return fake_nodes(self.environment, "p4d").read()


@pytest.fixture
def aws(cloud: Cloud, environment: Path) -> Aws:
    return Aws(cloud, environment)
