"""ClusterPolicy's status in the words of NVIDIA's operator."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from slicewright.kubeapi import ApiError
from slicewright.rehearsal.cluster.gpu_operator import controller
from slicewright.rehearsal.cluster.gpu_operator.controller import Operator

NFD = {"feature.node.kubernetes.io/kernel-version.full": "6.1"}
GPU = {**NFD, "feature.node.kubernetes.io/pci-10de.present": "true"}
"""Labels that Node Feature Discovery gives any node, and one with a GPU of NVIDIA's."""
IMAGE = {"repository": "nvcr.io/nvidia", "image": "k8s-device-plugin", "version": "v0.20.0"}
OPERANDS = ("devicePlugin", "gfd", "validator", "dcgmExporter", "migManager")
POLICY: dict[str, Any] = {
    "metadata": {"name": "cluster-policy", "uid": "u", "resourceVersion": "1"},
    "spec": {
        **dict.fromkeys(OPERANDS, IMAGE),
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
    },
}


class Api:
    """Stores what is written, by path; a node's labels are merged."""

    def __init__(self, operator_nodes: dict[str, Any]) -> None:
        self.written: dict[str, Any] = {}
        self._nodes = operator_nodes
        self._version = 1

    def patch(self, path: str, body: Any, **_: Any) -> Any:
        self._version += 1
        if path.startswith("/api/v1/nodes/"):
            node = self._nodes[path.rpartition("/")[2]]
            labels = {**node["metadata"].get("labels", {}), **body["metadata"].get("labels", {})}
            kept = {name: value for name, value in labels.items() if value is not None}
            body = {**node, "metadata": {**node["metadata"], "labels": kept}}
            self._nodes[path.rpartition("/")[2]] = body
        elif path.endswith("/status"):
            body = {**POLICY, "metadata": dict(POLICY["metadata"]), **body}
        self.written[path] = body
        body["metadata"].update(resourceVersion=str(self._version), generation=1)
        return body

    def create(self, path: str, body: Any) -> Any:
        return self.patch(f"{path}/{body['metadata']['name']}", body)


def reconciled(labels: dict[str, str] | None) -> tuple[Operator, Api]:
    """An operator after two passes, in a cluster with one node of these labels, or without any."""
    nodes = {}
    if labels is not None:
        nodes["n"] = {
            "metadata": {"name": "n", "uid": "n", "resourceVersion": "1", "labels": labels},
        }
    api = Api(nodes)
    operator = Operator(api, "ns")  # type: ignore[arg-type]
    operator.policies.put(POLICY)
    for node in nodes.values():
        operator.nodes.put(node)
    operator.reconcile()
    operator.reconcile()
    return operator, api


def condition(api: Api, kind: str) -> tuple[str, str, str]:
    status = api.written["/apis/nvidia.com/v1/clusterpolicies/cluster-policy/status"]["status"]
    (found,) = (c for c in status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"], found["message"]


def daemon_sets(api: Api) -> set[str]:
    return {path.rpartition("/")[2] for path in api.written if "/daemonsets/" in path}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [(None, "NFDLabelsMissing"), ({}, "NFDLabelsMissing"), (NFD, "NoGPUNodes")],
)
def test_without_a_gpu_node_it_is_ready_and_says_why_nothing_runs(
    labels: dict[str, str] | None, reason: str
) -> None:
    _, api = reconciled(labels)
    assert condition(api, "Ready")[:2] == ("True", reason)
    assert condition(api, "Error") == ("False", "Ready", "")
    assert daemon_sets(api) == set()


def test_operands_that_are_not_ready_are_named_by_their_states() -> None:
    _, api = reconciled(GPU)
    assert condition(api, "Ready") == ("False", "Error", "")
    status, reason, message = condition(api, "Error")
    assert (status, reason) == ("True", "OperandNotReady")
    assert message.startswith("ClusterPolicy is not ready, states not ready: [state-operator-val")
    assert "state-device-plugin" in message
    assert "nvidia-device-plugin-daemonset" in daemon_sets(api)


def test_with_every_operand_ready_it_is_reconciled() -> None:
    operator, api = reconciled(GPU)
    for found in operator.daemonsets.all():
        ready = {
            "observedGeneration": 1,
            "desiredNumberScheduled": 1,
            "numberReady": 1,
            "updatedNumberScheduled": 1,
        }
        version = str(int(found["metadata"]["resourceVersion"]) + 1000)
        metadata = {**found["metadata"], "resourceVersion": version}
        operator.daemonsets.put({**found, "metadata": metadata, "status": ready})
    operator.reconcile()
    assert condition(api, "Ready")[:2] == ("True", "Reconciled")
    assert condition(api, "Error")[:2] == ("False", "Ready")


def test_labels_that_a_conflict_refused_are_written_in_a_pass_that_follows_at_once() -> None:
    node = {"metadata": {"name": "n", "uid": "n", "resourceVersion": "1", "labels": GPU}}
    api = Api({"n": node})
    refusals = [ApiError(409, {})]

    def patch(path: str, body: Any, **more: Any) -> Any:
        if path == "/api/v1/nodes/n" and refusals:
            raise refusals.pop()
        return Api.patch(api, path, body, **more)

    api.patch = patch  # type: ignore[method-assign]
    operator = Operator(api, "ns")  # type: ignore[arg-type]
    operator.policies.put(POLICY)
    operator.nodes.put(node)
    operator.reconcile()
    assert refusals == []
    assert operator._changed.is_set()


def test_it_ends_when_it_is_asked_to_and_not_with_its_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it still writes labels while Helm's post-delete hook takes them back."""
    monkeypatch.setattr(controller, "_RESYNC_S", 3600)
    monkeypatch.setattr(controller, "list_and_watch", lambda *_, **__: iter(()))
    operator = Operator(Api({}), "ns")  # type: ignore[arg-type]
    running = threading.Thread(target=operator.run, daemon=True)
    running.start()
    operator.stop()
    running.join(timeout=60)
    assert not running.is_alive()
