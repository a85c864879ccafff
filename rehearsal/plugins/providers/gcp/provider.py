"""The gcp provider: its version and its table of resources."""

from __future__ import annotations

from pathlib import Path

from slicewright.rehearsal.plugins.bridge.provider import BridgedProvider
from slicewright.rehearsal.plugins.bridge.resources import Calls
from slicewright.rehearsal.plugins.bridge.schema import load
from slicewright.rehearsal.plugins.providers.gcp import client
from slicewright.rehearsal.plugins.providers.gcp.cluster import Cluster
from slicewright.rehearsal.plugins.providers.gcp.firewall import Firewall
from slicewright.rehearsal.plugins.providers.gcp.iam import Account, IamMember
from slicewright.rehearsal.plugins.providers.gcp.network import Network, Subnetwork
from slicewright.rehearsal.plugins.providers.gcp.node_pool import NodePool
from slicewright.rehearsal.plugins.providers.gcp.retries import Retrying
from slicewright.rehearsal.plugins.providers.gcp.router import Router, RouterNat


class GcpProvider(BridgedProvider):
    version = "10.2.0"
    package = "gcp"
    schema = load(Path(__file__).parent / "schema.json")
    resources = {  # noqa: RUF012
        r.kind: r
        for r in (
            Network(),
            Subnetwork(),
            Firewall(),
            Router(),
            RouterNat(),
            Account(),
            IamMember(),
            Cluster(),
            NodePool(),
        )
    }

    def connect(self) -> Calls:
        return Retrying(client.connect(), self.cancelled, self.retry_pause_s)
