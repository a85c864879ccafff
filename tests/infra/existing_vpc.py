"""A network in the simulated AWS account that no stack made."""

from __future__ import annotations

from typing import Any

from tests.infra.cloud_engine import REGION, CloudEngine


def ec2(engine: CloudEngine, operation: str, **body: Any) -> dict[str, Any]:
    return dict(engine.cloud.call("ec2", operation, {"region": REGION}, body))


class ExistingVpc:
    """A VPC that somebody made, with public and private subnets."""

    def __init__(self, engine: CloudEngine) -> None:
        self._engine = engine
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
            "Vpcs": ec2(self._engine, "DescribeVpcs", VpcIds=[self.vpc]),
            **{
                kind: [
                    one
                    for one in ec2(self._engine, f"Describe{kind}")[kind]
                    if one["VpcId"] == self.vpc
                ]
                for kind in ("Subnets", "RouteTables", "NatGateways")
            },
        }

    def _made(self, operation: str, **body: Any) -> dict[str, Any]:
        return ec2(self._engine, operation, **body)

    def _table(self, **target: str) -> str:
        table = self._made("CreateRouteTable", VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        self._made("CreateRoute", RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", **target)
        return str(table)

    def _subnet(self, zone: str, number: int, *, public: bool) -> str:
        made = self._made(
            "CreateSubnet",
            VpcId=self.vpc,
            CidrBlock=f"172.31.{number * 16}.0/20",
            AvailabilityZone=REGION + zone,
        )["Subnet"]["SubnetId"]
        if public:
            self._made("ModifySubnetAttribute", SubnetId=made, MapPublicIpOnLaunch={"Value": True})
        table = self._public if public else self._private
        self._made("AssociateRouteTable", RouteTableId=table, SubnetId=made)
        return str(made)
