"""NFD's garbage collector: what is written of nodes that are gone goes."""

from __future__ import annotations

from typing import Any

from slicewright.rehearsal.cluster.feature_discovery import collector
from slicewright.rehearsal.cluster.node.operands import node_features


class Api:
    def __init__(self, nodes: list[str], features: dict[str, str]) -> None:
        self.nodes, self.features = nodes, features
        self.deleted: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        if path == "/api/v1/nodes":
            return {"items": [{"metadata": {"name": name}} for name in self.nodes]}
        return {
            "items": [
                {
                    "metadata": {
                        "name": name,
                        "namespace": "gpus",
                        "labels": {node_features.OF_NODE: node} if node else {},
                    }
                }
                for name, node in self.features.items()
            ]
        }

    def delete(self, path: str) -> None:
        self.deleted.append(path.rpartition("/")[2])


def test_objects_of_nodes_that_are_gone_are_deleted_and_no_others() -> None:
    features = {"a": "a", "nvidia-features-for-b": "b", "of-no-node": ""}
    client: Any = Api(["a"], features)
    assert collector.collect(client) == 1
    assert client.deleted == ["nvidia-features-for-b"]
