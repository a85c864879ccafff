"""The provider's table of resources."""

from __future__ import annotations

from pathlib import Path

from rehearsal.bridge.provider import BridgedProvider
from rehearsal.bridge.schema import load
from rehearsal.gcp_provider.cluster import Cluster
from rehearsal.gcp_provider.iam import Account, IamMember
from rehearsal.gcp_provider.network import Network, Subnetwork
from rehearsal.gcp_provider.node_pool import NodePool


class GcpProvider(BridgedProvider):
    version = "10.2.0"
    package = "gcp"
    schema = load(Path(__file__).parent / "schema.json")
    resources = {r.kind: r for r in (Network(), Subnetwork(), Account(), IamMember(), Cluster(), NodePool())}  # noqa: RUF012
