"""Time-slicing by NVIDIA's own device plugin and config-manager, chosen per node by label. 40 s."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rehearsal.cluster.gpu_operator.conftest import NAMESPACE

MACHINE = {"cloud": "eks", "gpu_model": "A10G", "gpu_count": 1, "driver_version": "580.95.05"}
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
LABEL = "nvidia.com/device-plugin.config"
FOUR = """\
version: v1
sharing:
  timeSlicing:
    renameByDefault: false
    failRequestsGreaterThanOne: false
    resources:
      - {name: nvidia.com/gpu, replicas: 4}
"""


@pytest.fixture(scope="module")
def node(cluster: Any) -> Any:
    """A node with one GPU that four pods share."""
    configs = {"four": FOUR, "two": FOUR.replace("replicas: 4", "replicas: 2")}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "configs", "namespace": NAMESPACE},
            "data": configs,
        }
    )
    cluster.client.patch(POLICY, {"spec": {"devicePlugin": {"config": {"name": "configs"}}}})
    yield cluster.add_node("shared-0", MACHINE, {LABEL: "four"})
    cluster.client.patch(POLICY, {"spec": {"devicePlugin": {"config": None}}})
    cluster.client.delete("/api/v1/nodes/shared-0")


def advertised(node: dict[str, Any] | None) -> str | None:
    status = (node or {}).get("status") or {}
    amount: str | None = (status.get("allocatable") or {}).get("nvidia.com/gpu")
    return amount


def label(node: dict[str, Any] | None, name: str) -> str | None:
    labels = (node or {}).get("metadata", {}).get("labels", {})
    value: str | None = labels.get(f"nvidia.com/{name}")
    return value


def plugin(cluster: Any) -> dict[str, Any]:
    pods = cluster.client.get(
        f"/api/v1/namespaces/{NAMESPACE}/pods",
        labelSelector="app=nvidia-device-plugin-daemonset",
        fieldSelector="spec.nodeName=shared-0",
    )["items"]
    (found,) = pods
    return dict(found)


def restarts(pod: dict[str, Any]) -> dict[str, int]:
    """By container. A signal that meets a plugin before it handles signals restarts it."""
    return {s["name"]: s["restartCount"] for s in pod["status"]["containerStatuses"]}


def running(pod: dict[str, Any]) -> bool:
    return all("running" in s["state"] for s in pod["status"]["containerStatuses"])


def test_one_gpu_is_advertised_four_times(cluster: Any, node: str) -> None:
    cluster.until(node, lambda n: advertised(n) == "4")


def test_gfd_labels_the_node_as_shared(cluster: Any, node: str) -> None:
    found = cluster.until(node, lambda n: n if label(n, "gpu.replicas") == "4" and n else None)
    assert label(found, "gpu.product") == "NVIDIA-A10G-SHARED"
    assert label(found, "gpu.sharing-strategy") == "time-slicing"
    assert label(found, "mps.capable") == "false"


def test_another_config_reaches_the_same_plugin_by_a_signal(cluster: Any, node: str) -> None:
    pod = f"/api/v1/namespaces/{NAMESPACE}/pods/{plugin(cluster)['metadata']['name']}"
    # A container that waits for its restart would be counted only later.
    before = cluster.until(pod, lambda p: p if p and running(p) else None)
    cluster.client.patch(node, {"metadata": {"labels": {LABEL: "two"}}})
    cluster.until(node, lambda n: advertised(n) == "2")
    after = plugin(cluster)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert restarts(after) == restarts(before)
    cluster.until(node, lambda n: label(n, "gpu.replicas") == "2")


def test_a_config_that_does_not_exist_ends_config_manager(cluster: Any, node: str) -> None:
    cluster.client.patch(node, {"metadata": {"labels": {LABEL: "none-such"}}})
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{plugin(cluster)['metadata']['name']}"
    why = "specified config none-such does not exist"
    cluster.says(path, lambda log: why in log, container="config-manager", previous="true")
