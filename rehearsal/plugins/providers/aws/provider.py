"""The aws provider: its version and its table of resources."""

from __future__ import annotations

from pathlib import Path

from slicewright.rehearsal.plugins.bridge.provider import BridgedProvider
from slicewright.rehearsal.plugins.bridge.resources import Calls
from slicewright.rehearsal.plugins.bridge.schema import load
from slicewright.rehearsal.plugins.providers.aws import client
from slicewright.rehearsal.plugins.providers.aws.eks_access import (
    AccessEntry,
    AccessPolicyAssociation,
)
from slicewright.rehearsal.plugins.providers.aws.eks_cluster import Addon, Cluster
from slicewright.rehearsal.plugins.providers.aws.functions import FUNCTIONS
from slicewright.rehearsal.plugins.providers.aws.iam import Role, RolePolicy, RolePolicyAttachment
from slicewright.rehearsal.plugins.providers.aws.launch_template import LaunchTemplate
from slicewright.rehearsal.plugins.providers.aws.nat import Eip, NatGateway
from slicewright.rehearsal.plugins.providers.aws.node_group import NodeGroup
from slicewright.rehearsal.plugins.providers.aws.placement_group import PlacementGroup
from slicewright.rehearsal.plugins.providers.aws.pod_identity import PodIdentityAssociation
from slicewright.rehearsal.plugins.providers.aws.routing import (
    InternetGateway,
    RouteTable,
    RouteTableAssociation,
)
from slicewright.rehearsal.plugins.providers.aws.vpc import Subnet, Vpc


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
            Eip(),
            NatGateway(),
            PlacementGroup(),
            LaunchTemplate(),
            Role(),
            RolePolicy(),
            RolePolicyAttachment(),
            Cluster(),
            NodeGroup(),
            Addon(),
            PodIdentityAssociation(),
            AccessEntry(),
            AccessPolicyAssociation(),
        )
    }
    functions = FUNCTIONS

    def connect(self) -> Calls:
        return client.connect()
