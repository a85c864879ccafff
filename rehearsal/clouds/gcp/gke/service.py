"""The API of the simulated Kubernetes Engine."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.fault_file import NodeEvent
from slicewright.rehearsal.clouds.gcp.gke.autoscaler import Autoscaler
from slicewright.rehearsal.clouds.gcp.gke.clusters import Clusters
from slicewright.rehearsal.clouds.gcp.gke.node_pools import NodePools
from slicewright.rehearsal.clouds.gcp.gke.operations import Operations
from slicewright.rehearsal.clouds.gcp.state import CLUSTERS, NODE_POOLS


class Gke:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._operations = Operations(context)
        self._node_pools = NodePools(context, self._operations)
        self._autoscaler = Autoscaler(context, self._node_pools)
        self._clusters = Clusters(context, self._operations, self._node_pools)
        context.tasks.register({**self._clusters.tasks(), **self._node_pools.tasks()})

    def methods(self) -> Methods:
        return {
            **self._clusters.methods(),
            **self._node_pools.methods(),
            **self._operations.methods(),
        }

    def inventory(self) -> list[JsonObject]:
        clusters: list[JsonObject] = [
            {"kind": "container.cluster", "name": key} for key, _ in self._store.items(CLUSTERS)
        ]
        pools: list[JsonObject] = [
            {"kind": "container.nodePool", "name": key, "nodes": len(i["nodes"])}
            for key, i in self._store.items(NODE_POOLS)
        ]
        return clusters + pools

    def disturb(self, event: NodeEvent) -> bool:
        """Lets it happen to a node; False where no pool has the node that it names."""
        return self._node_pools.disturb(event)

    def look_around(self) -> None:
        """What the cloud does of itself from time to time."""
        self._node_pools.retry()
        self._autoscaler.look_around()

    def restart_control_planes(self) -> None:
        self._clusters.restart_control_planes()
