"""The provider's table of resources."""

from __future__ import annotations

from pathlib import Path

from rehearsal.aws_provider.eks_cluster import Addon, Cluster
from rehearsal.aws_provider.iam import Role, RolePolicyAttachment
from rehearsal.aws_provider.launch_template import LaunchTemplate
from rehearsal.aws_provider.node_group import NodeGroup
from rehearsal.aws_provider.routing import InternetGateway, RouteTable, RouteTableAssociation
from rehearsal.aws_provider.vpc import Subnet, Vpc
from rehearsal.bridge.provider import BridgedProvider
from rehearsal.bridge.schema import load


class AwsProvider(BridgedProvider):
    version = "7.51.1"
    package = "aws"
    schema = load(Path(__file__).parent / "schema.json")
    resources = {  # noqa: RUF012
        r.kind: r
        for r in (
            Vpc(),
            Subnet(),
            InternetGateway(),
            RouteTable(),
            RouteTableAssociation(),
            LaunchTemplate(),
            Role(),
            RolePolicyAttachment(),
            Cluster(),
            NodeGroup(),
            Addon(),
        )
    }
