"""A network and a cluster in the simulated AWS account that no stack made."""

from __future__ import annotations

import json
from typing import Any

from tests.infra.cloud_engine import REGION, CloudEngine


def ec2(
    engine: CloudEngine, operation: str, *, region: str = REGION, **body: Any
) -> dict[str, Any]:
    return dict(engine.cloud.call("ec2", operation, {"region": region}, body))


def role_of_pods(engine: CloudEngine, name: str, *, trusted: bool = True) -> str:
    """ARN of a role that EKS Pod Identity may give to pods."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com" if trusted else "ec2.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    asked = {"RoleName": name, "AssumeRolePolicyDocument": trust}
    made = engine.cloud.call("aws-iam", "CreateRole", {"region": REGION}, asked)
    return str(made["Role"]["Arn"])


class ExistingVpc:
    """A VPC that somebody made, with public and private subnets."""

    def __init__(self, engine: CloudEngine, region: str = REGION) -> None:
        self._engine = engine
        self._region = region
        self.vpc = self._made("CreateVpc", CidrBlock="172.31.0.0/16")["Vpc"]["VpcId"]
        gateway = self._made("CreateInternetGateway")["InternetGateway"]["InternetGatewayId"]
        self._made("AttachInternetGateway", InternetGatewayId=gateway, VpcId=self.vpc)
        self._public = self._table(GatewayId=gateway)
        self.public = {z: self._subnet(z, n, public=True) for n, z in enumerate("abc")}
        address = self._made("AllocateAddress", Domain="vpc")["AllocationId"]
        nat = self._made("CreateNatGateway", SubnetId=self.public["a"], AllocationId=address)[
            "NatGateway"
        ]["NatGatewayId"]
        assert engine.cloud.tasks.wait(30)
        self._private = self._table(NatGatewayId=nat)
        self.private = {z: self._subnet(z, 8 + n, public=False) for n, z in enumerate("abc")}
        self.before = self.seen()

    def seen(self) -> dict[str, Any]:
        """All of it, as EC2 tells it."""
        return {
            "Vpcs": self._made("DescribeVpcs", VpcIds=[self.vpc]),
            **{
                kind: [
                    one for one in self._made(f"Describe{kind}")[kind] if one["VpcId"] == self.vpc
                ]
                for kind in ("Subnets", "RouteTables", "NatGateways")
            },
        }

    def _made(self, operation: str, **body: Any) -> dict[str, Any]:
        return ec2(self._engine, operation, region=self._region, **body)

    def _table(self, **target: str) -> str:
        table = self._made("CreateRouteTable", VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        self._made("CreateRoute", RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **target)
        return str(table)

    def _subnet(self, zone: str, number: int, *, public: bool) -> str:
        made = self._made(
            "CreateSubnet",
            VpcId=self.vpc,
            CidrBlock=f"172.31.{number * 16}.0/20",
            AvailabilityZone=self._region + zone,
        )["Subnet"]["SubnetId"]
        if public:
            self._made("ModifySubnetAttribute", SubnetId=made, MapPublicIpOnLaunch={"Value": True})
        table = self._public if public else self._private
        self._made("AssociateRouteTable", RouteTableId=table, SubnetId=made)
        return str(made)


class ExistingCluster:
    """An EKS cluster in that network, with add-ons and a node group, that no stack made."""

    def __init__(self, engine: CloudEngine, network: ExistingVpc, *, mode: str = "API") -> None:
        self._engine = engine
        self._role("cluster", "eks", "AmazonEKSClusterPolicy")
        node_role = self._role(
            *("node", "ec2", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
        )
        engine.ask(
            "CreateCluster",
            name="c",
            version="1.35",
            roleArn="arn:aws:iam::123456789012:role/cluster",
            accessConfig={"authenticationMode": mode},
            resourcesVpcConfig={"subnetIds": [network.private["a"], network.private["b"]]},
        )
        self.settle()
        for addon in ("vpc-cni", "kube-proxy"):
            engine.ask("CreateAddon", clusterName="c", addonName=addon)
        engine.ask(
            "CreateNodegroup",
            clusterName="c",
            nodegroupName="theirs",
            nodeRole=node_role,
            subnets=[network.private["a"]],
            instanceTypes=["m6i.large"],
            scalingConfig={"minSize": 1, "desiredSize": 1, "maxSize": 1},
        )
        self.settle()
        engine.ask("CreateAddon", clusterName="c", addonName="coredns")
        self.settle()
        self.before = self.seen()

    def settle(self) -> None:
        assert self._engine.cloud.tasks.wait(30)

    def seen(self) -> dict[str, Any]:
        """Cluster, add-ons and node groups, as EKS tells them."""
        ask = self._engine.ask
        addons = ask("ListAddons", clusterName="c")["addons"]
        groups = ask("ListNodegroups", clusterName="c")["nodegroups"]
        return {
            "cluster": ask("DescribeCluster", name="c"),
            "addons": [ask("DescribeAddon", clusterName="c", addonName=a) for a in addons],
            "groups": [ask("DescribeNodegroup", clusterName="c", nodegroupName=g) for g in groups],
        }

    def _role(self, name: str, service: str, *policies: str) -> str:
        def iam(operation: str, **body: Any) -> dict[str, Any]:
            asked = {"RoleName": name, **body}
            return dict(self._engine.cloud.call("aws-iam", operation, {"region": REGION}, asked))

        principal = {"Service": f"{service}.amazonaws.com"}
        statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        made = iam("CreateRole", AssumeRolePolicyDocument=trust)
        for policy in policies:
            iam("AttachRolePolicy", PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
        return str(made["Role"]["Arn"])
