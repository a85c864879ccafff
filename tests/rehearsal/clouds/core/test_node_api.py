"""A cloud registers a node in the names of its kubelet and of the cloud's node controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slicewright.rehearsal.clouds.core.node_api import ApiServerNodes

POOL = "slicewright.io/pool"


class Server:
    """Records the user and the labels of each write."""

    def __init__(self, user: str, writes: list[tuple[str, str, dict[str, str]]]) -> None:
        self._user = user
        self._writes = writes

    def acting_as(self, user: str, *, group: str | None = None) -> Server:
        return Server(user, self._writes)

    def create(self, path: str, body: Any) -> None:
        self._writes.append((self._user, path, body["metadata"]["labels"]))

    def patch(self, path: str, body: Any) -> None:
        self._writes.append((self._user, path, body["metadata"]["labels"]))


def test_labels_that_no_kubelet_may_set_are_the_node_controllers(tmp_path: Path) -> None:
    writes: list[tuple[str, str, dict[str, str]]] = []
    nodes = ApiServerNodes(tmp_path / "kubeconfig")
    vars(nodes)["_client"] = Server("administrator", writes)
    nodes.register({"metadata": {"name": "n1", "labels": {POOL: "p", "kubernetes.io/role": "gpu"}}})
    nodes.register({"metadata": {"name": "n2", "labels": {POOL: "p"}}})
    assert writes == [
        ("system:node:n1", "/api/v1/nodes", {POOL: "p"}),
        (
            "system:serviceaccount:kube-system:node-controller",
            "/api/v1/nodes/n1",
            {"kubernetes.io/role": "gpu"},
        ),
        ("system:node:n2", "/api/v1/nodes", {POOL: "p"}),
    ]
