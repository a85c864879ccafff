"""What the simulated Google Cloud stores: its kinds of resources and their records."""

from __future__ import annotations

from typing import TypedDict

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_group import GroupRecord
from slicewright.rehearsal.clouds.core.store import Kind

SERVICE_ACCOUNTS = Kind[JsonObject]("iam/serviceAccounts")
"""By e-mail address: in the API's form."""
POLICIES = Kind[JsonObject]("cloudresourcemanager/policies")
"""By project: its IAM policy, in the API's form."""

SERVICES = Kind[JsonObject]("serviceusage/services")
"""By project: `enabled`, the names of the APIs that are on; absent until one is switched."""
SERVICE_OPERATIONS = Kind[JsonObject]("serviceusage/operations")
"""By name: in the API's form."""

NETWORKS = Kind[JsonObject]("compute/networks")
"""By PROJECT/NAME: in the API's form."""
SUBNETWORKS = Kind[JsonObject]("compute/subnetworks")
"""By PROJECT/REGION/NAME: in the API's form."""
ROUTERS = Kind[JsonObject]("compute/routers")
"""By PROJECT/REGION/NAME: in the API's form."""
SHARED_VPCS = Kind[JsonObject]("compute/sharedVpcs")
"""By host project: `projects`, those that it shares its networks with."""

FIREWALLS = Kind[JsonObject]("compute/firewalls")
"""By PROJECT/NAME, as the following only once they are left over by a cluster."""
FORWARDING_RULES = Kind[JsonObject]("compute/forwardingRules")
TARGET_POOLS = Kind[JsonObject]("compute/targetPools")
BACKEND_SERVICES = Kind[JsonObject]("compute/backendServices")
"""By PROJECT/REGION/NAME."""
NETWORK_ENDPOINT_GROUPS = Kind[JsonObject]("compute/networkEndpointGroups")
DISKS = Kind[JsonObject]("compute/disks")
SNAPSHOTS = Kind[JsonObject]("compute/snapshots")
"""By PROJECT/NAME."""
ADDRESSES = Kind[JsonObject]("compute/addresses")
"""By PROJECT/REGION/NAME."""
"""By PROJECT/ZONE/NAME. All in the API's form; fields that begin with `_` are not shown."""
GLOBAL_FORWARDING_RULES = Kind[JsonObject]("compute/globalForwardingRules")
GLOBAL_ADDRESSES = Kind[JsonObject]("compute/globalAddresses")
TARGET_HTTP_PROXIES = Kind[JsonObject]("compute/targetHttpProxies")
TARGET_HTTPS_PROXIES = Kind[JsonObject]("compute/targetHttpsProxies")
SSL_CERTIFICATES = Kind[JsonObject]("compute/sslCertificates")
URL_MAPS = Kind[JsonObject]("compute/urlMaps")
GLOBAL_BACKEND_SERVICES = Kind[JsonObject]("compute/globalBackendServices")
HEALTH_CHECKS = Kind[JsonObject]("compute/healthChecks")
"""By PROJECT/NAME, like the seven above: what an Ingress of GKE consists of."""


class ClusterRecord(TypedDict):
    """A GKE cluster, by its full resource name."""

    key: str
    cluster: JsonObject
    """In the API's form, without its node pools."""


class NodePoolRecord(GroupRecord):
    """A GKE node pool, by its full resource name."""

    key: str
    pool: JsonObject
    """In the API's form, and `etag_seed`, from which the nodes' names derive."""
    count: int
    """Nodes per zone."""
    scaled: dict[str, int] | None
    """Zone -> nodes, where the autoscaler has changed that; None = `count` in each."""
    gke_gpu_taint: bool
    """Whether GKE adds its GPU taint to the nodes: decided when the pool is created."""


CLUSTERS = Kind[ClusterRecord]("container/clusters")
NODE_POOLS = Kind[NodePoolRecord]("container/nodePools")
OPERATIONS = Kind[JsonObject]("container/operations")
"""By full resource name: in the API's form."""
