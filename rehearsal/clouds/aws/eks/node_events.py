"""What happens to nodes of EKS without a call: spot interruptions and node repair.

The Auto Scaling group ends the instance and starts another.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.nodes import desired_nodes
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.fault_file import NodeEvent
from slicewright.rehearsal.clouds.core.faults import names_pool
from slicewright.rehearsal.clouds.core.node_group import NodeGroup


class NodeEvents:
    def __init__(self, context: Context) -> None:
        self._context = context
        context.tasks.register({"eks.nodes.recreate": self._recreate})

    def disturb(self, event: NodeEvent) -> bool:
        """Lets it happen to a node; False where no group has the node that it names."""
        for key, item in self._context.store.items(NODE_GROUPS):
            group = item["nodegroup"]
            if names_pool(event.pool, group["nodegroupName"], group.get("labels", {})) and any(
                node["index"] == event.node for node in item["nodes"]
            ):
                self._context.tasks.begin("eks.nodes.recreate", key=key, node=event.node)
                return True
        return False

    def _recreate(self, arguments: JsonObject) -> None:
        item = self._context.store.get(NODE_GROUPS, arguments["key"])
        if item is not None:
            api = self._context.planes.nodes(item["cluster"])
            NodeGroup(self._context.store, NODE_GROUPS, item["key"], api).recreate(
                desired_nodes(self._context, item),
                arguments["node"],
                same_name=False,
                timeout_s=self._context.ready_timeout_s,
            )
