"""What the simulated AWS stores: its kinds of resources and their records.

Regional resources have keys that begin with `REGION/`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_group import GroupRecord
from slicewright.rehearsal.clouds.core.store import Kind

ROLES = Kind[JsonObject]("aws-iam/roles")
"""By name: the role, its trust policy (`trust`), the ARNs of its managed policies (`policies`), its
inline policies by name (`inline`).
"""

INSTANCE_PROFILES = Kind[JsonObject]("aws-iam/instanceProfiles")
"""By name, with the name of the role in each: also those that EKS makes for node groups."""

VPCS = Kind[JsonObject]("ec2/vpcs")
INTERNET_GATEWAYS = Kind[JsonObject]("ec2/internetGateways")
SUBNETS = Kind[JsonObject]("ec2/subnets")
ROUTE_TABLES = Kind[JsonObject]("ec2/routeTables")
PLACEMENT_GROUPS = Kind[JsonObject]("ec2/placementGroups")
ELASTIC_IPS = Kind[JsonObject]("ec2/elasticIps")
NAT_GATEWAYS = Kind[JsonObject]("ec2/natGateways")
NETWORK_INTERFACES = Kind[JsonObject]("ec2/networkInterfaces")
SECURITY_GROUPS = Kind[JsonObject]("ec2/securityGroups")
VOLUMES = Kind[JsonObject]("ec2/volumes")
INSTANCES = Kind[JsonObject]("ec2/instances")
"""By REGION/ID: those that a fleet started. The machines of node groups are no instances here."""
SNAPSHOTS = Kind[JsonObject]("ec2/snapshots")
LOAD_BALANCERS = Kind[JsonObject]("elb/loadBalancers")
TARGET_GROUPS = Kind[JsonObject]("elb/targetGroups")
LOG_GROUPS = Kind[JsonObject]("logs/logGroups")
"""The last four by REGION/NAME; all but log groups only once they are left over."""
LAUNCH_TEMPLATES = Kind[JsonObject]("ec2/launchTemplates")
"""By REGION/ID: in the API's form; fields that begin with `_` are not shown."""


class ClusterRecord(TypedDict):
    """An EKS cluster, by REGION/NAME."""

    cluster: JsonObject
    """In the API's form."""
    zones: list[str]
    """Of the subnets that it was created with; it keeps to them."""
    creator: NotRequired[str]
    """The ARN of the user or role that created it. Absent in an older environment."""


class NodeGroupRecord(GroupRecord):
    """An EKS node group, by REGION/CLUSTER/NAME."""

    key: str
    region: str
    cluster: str
    nodegroup: JsonObject
    """In the API's form."""
    kubelet_version: str


CLUSTERS = Kind[ClusterRecord]("eks/clusters")
NODE_GROUPS = Kind[NodeGroupRecord]("eks/nodegroups")
ADDONS = Kind[JsonObject]("eks/addons")
"""By REGION/CLUSTER/NAME: in the API's form."""
POD_IDENTITIES = Kind[JsonObject]("eks/podidentityassociations")
"""By REGION/CLUSTER/ID: in the API's form."""
ACCESS_ENTRIES = Kind[JsonObject]("eks/accessEntries")
"""By REGION/CLUSTER/PRINCIPAL: in the API's form, and `_policies`, those associated with it.
`_creator`: EKS made it with the cluster.
"""
UPDATES = Kind[JsonObject]("eks/updates")
"""By the key of what is updated, and /ID: in the API's form."""
