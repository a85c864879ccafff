"""What is read of a cluster, with the rights that a person has."""

from __future__ import annotations

from typing import Any, cast

import pytest

from slicewright.apis.names import POOL_LABEL
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.live.access import NoCluster
from slicewright.live.looking import CannotLook, read_objects
from slicewright.live.reading import ClusterObjects, NotInstalled, drained, read

POOLS = "/apis/slicewright.io/v1alpha1/gpupools"
REPORTS = "/apis/slicewright.io/v1alpha1/gpunodereports"
OWN_PODS = "/api/v1/namespaces/slicewright-system/pods"
DEPLOYMENT = "/apis/apps/v1/namespaces/slicewright-system/deployments/fleet-controller"
BUDGETS = "/apis/policy/v1/namespaces/ai/poddisruptionbudgets"


def _pool() -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "selector": {"matchLabels": {POOL_LABEL: "p"}},
            "layoutHash": "a" * 64,
            "expectedNodes": {"min": 1, "max": 9},
        },
    }


def _node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "labels": {POOL_LABEL: "p"}}}


def _pod(name: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ai", "uid": name},
        "spec": {"nodeName": node, "containers": []},
    }


class Server:
    """Answers of an API server by path, two objects a page."""

    def __init__(self, nodes: int = 5) -> None:
        names = [f"n{i}" for i in range(nodes)]
        self.items: dict[str, list[Any]] = {
            POOLS: [_pool()],
            REPORTS: [],
            "/api/v1/nodes": [_node(name) for name in names],
            "/api/v1/pods": [_pod(f"pod-{name}", name) for name in names],
            BUDGETS: [{"metadata": {"name": "b", "namespace": "ai"}, "spec": {}}],
        }
        self.controllers = 2
        self.refuses: dict[str, int] = {}
        """Path -> HTTP code."""
        self.asked: list[tuple[str, str]] = []

    def get(self, path: str, **query: str) -> Any:
        self.asked.append((path, query.get("fieldSelector", "")))
        if path in self.refuses:
            raise ApiError(self.refuses[path], {"message": "no"})
        if path == DEPLOYMENT:
            return {"status": {"availableReplicas": self.controllers}}
        items = self.items[path]
        selector = dict(
            part.split("=", 1)
            for part in query.get("fieldSelector", "").split(",")
            if "!" not in part and part
        )
        if node := selector.get("spec.nodeName"):
            items = [one for one in items if one["spec"]["nodeName"] == node]
        start = int(query.get("continue", "0"))
        more = str(start + 2) if start + 2 < len(items) else ""
        return {"items": items[start : start + 2], "metadata": {"continue": more}}

    def found(self, *nodes: str) -> ClusterObjects:
        return read(cast("Client", self), pods_of=lambda *_: nodes)


def test_lists_are_read_to_their_last_page() -> None:
    found = Server().found()
    assert [node.name for node in found.nodes] == ["n0", "n1", "n2", "n3", "n4"]
    assert (found.most, found.controller, found.pods) == ({"p": 9}, 2, {})


def test_pods_are_listed_by_node_or_at_once_for_many_nodes() -> None:
    few = Server()
    assert [p["metadata"]["name"] for p in few.found("n1").pods["n1"]] == ["pod-n1"]
    assert ("/api/v1/pods", "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed") in (
        few.asked
    )
    many = Server(nodes=30)
    names = [f"n{i}" for i in range(25)]
    found = many.found(*names)
    assert {name: len(there) for name, there in found.pods.items()} == dict.fromkeys(names, 1)
    assert not any("spec.nodeName" in selector for _, selector in many.asked)


def test_pods_of_shared_cards_and_pods_without_a_node_are_read() -> None:
    server = Server(nodes=1)
    server.items[POOLS][0]["spec"]["shares"] = {
        "engine": "volcano",
        "namespace": "volcano-system",
        "memoryUnitMiB": 1,
    }
    server.items["/api/v1/pods"].append(_pod("waits", ""))
    found = server.found()
    assert ("/api/v1/pods", "spec.nodeName=,status.phase=Pending") in server.asked
    assert [pod["metadata"]["name"] for pod in found.sharing["n0"]] == ["pod-n0"]
    assert "waits" in [pod["metadata"]["name"] for pod in found.pending]
    server.refuses = {"/api/v1/pods": 403}
    found = server.found()
    assert (found.sharing, found.pending) == ({}, ())
    assert [note.partition(":")[0] for note in found.unread] == ["pods"]


def test_pods_are_not_read_for_shares_without_an_engine() -> None:
    server = Server()
    found = server.found()
    assert (found.sharing, found.pending) == ({}, ())
    assert "/api/v1/pods" not in {path for path, _ in server.asked}


def test_a_cluster_without_the_kind_differs_from_one_without_pools() -> None:
    bare = Server()
    bare.refuses[POOLS] = 404
    with pytest.raises(NotInstalled):
        bare.found()


def test_objects_that_the_user_may_not_read_are_left_out_and_reported() -> None:
    server = Server()
    server.refuses = {"/api/v1/pods": 403, DEPLOYMENT: 403}
    found = server.found("n1")
    assert (found.pods, found.controller) == ({}, None)
    assert [note.partition(":")[0] for note in found.unread] == [
        "pods",
        "the fleet controller's Deployment in namespace slicewright-system",
    ]
    server.refuses = {BUDGETS: 403}
    assert "disruption budgets in namespace ai" in server.found("n1").unread[0]
    server.refuses, server.items[OWN_PODS] = {DEPLOYMENT: 404}, []
    assert server.found().controller == 0


def test_the_reason_why_a_controllers_pods_wait_is_read() -> None:
    server = Server()
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "toomanyrequests: no"}}
    status = {"containerStatuses": [{"name": "c", "image": "python:3.13", "state": state}]}
    server.items[OWN_PODS] = [{**_pod("fleet-controller-x", "n1"), "status": status}]
    assert server.found().controller_waits == ""
    server.controllers = 0
    assert "docker.io answers 429" in server.found().controller_waits
    server.refuses = {OWN_PODS: 403}
    assert server.found().controller_waits == ""


def test_other_errors_are_not_taken_for_a_missing_right() -> None:
    for path in ("/api/v1/pods", BUDGETS, DEPLOYMENT, "/api/v1/nodes"):
        server = Server()
        server.refuses[path] = 500
        with pytest.raises(ApiError):
            server.found("n1")


class _Access:
    """A token that has ended before its time."""

    def __init__(self, *clients: Any) -> None:
        self._clients = list(clients)
        self.renewed = 0
        self.context = type("C", (), {"name": "c", "server": "https://c"})()

    def client(self) -> Any:
        if isinstance(self._clients[0], Exception):
            raise self._clients[0]
        return self._clients[0]

    def refused(self) -> None:
        self.renewed += 1
        self._clients.pop(0)


def test_a_refused_token_is_renewed_once() -> None:
    old, new = Server(), Server()
    old.refuses[POOLS] = new.refuses["/never"] = 401
    access = _Access(old, new)
    assert len(read_objects(cast("Any", access), pods_of=drained).nodes) == 5
    assert access.renewed == 1
    with pytest.raises(CannotLook, match="does not accept the credentials"):
        read_objects(cast("Any", _Access(old, old)), pods_of=drained)


def test_every_failure_is_one_sentence_with_a_remedy() -> None:
    gone = Server()
    gone.refuses[POOLS] = 404
    with pytest.raises(CannotLook, match="slicewright is not installed in this cluster"):
        read_objects(cast("Any", _Access(gone)), pods_of=drained)
    with pytest.raises(CannotLook, match="no kubeconfig"):
        read_objects(cast("Any", _Access(NoCluster("no kubeconfig"))), pods_of=drained)
    with pytest.raises(CannotLook, match=r"context c \(https://c\) does not answer: refused"):
        read_objects(cast("Any", _Access(Unreachable("refused"))), pods_of=drained)
