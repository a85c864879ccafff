"""Sharing by MPS: NVIDIA's own daemon, device plugin and GFD over a stand-in for CUDA's control
program. 90 s, of which the plugin waits up to 30 before it asks for the daemon again.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.rehearsal.cluster.gpu_operator.conftest import NAMESPACE, VALUES
from tests.rehearsal.cluster.gpu_operator.test_sharing import (
    LABEL,
    MACHINE,
    POLICY,
    advertised,
    label,
)

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DAEMON = "nvidia-device-plugin-mps-control-daemon"
FOUR = """\
version: v1
sharing:
  mps:
    resources:
      - {name: nvidia.com/gpu, replicas: 4}
"""


@pytest.fixture(scope="module")
def node(cluster: Any) -> Any:
    """A node with one GPU of which four pods have a part each. MPS excludes strategy mixed.

    The default config is the node's own: config-manager's first container does not wait for the
    label. Source: NVIDIA/k8s-device-plugin #1645.
    """
    configs = {"four": FOUR, "two": FOUR.replace("replicas: 4", "replicas: 2")}
    metadata = {"name": "mps-configs", "namespace": NAMESPACE}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": configs})
    chosen = {"name": "mps-configs", "default": "four"}
    shared = {"devicePlugin": {"config": chosen}, "mig": {"strategy": "single"}}
    cluster.client.patch(POLICY, {"spec": shared})
    yield cluster.add_node("mps-0", MACHINE, {LABEL: "four"})
    cluster.client.delete("/api/v1/nodes/mps-0")
    before = {"devicePlugin": {"config": None}, "mig": {"strategy": VALUES["mig"]["strategy"]}}
    cluster.client.patch(POLICY, {"spec": before})


def daemon(cluster: Any) -> dict[str, Any]:
    """The daemon's pod."""
    (found,) = cluster.client.get(PODS, labelSelector=f"app={DAEMON}")["items"]
    return dict(found)


def said(cluster: Any, container: str, **query: str) -> str:
    path = f"{PODS}/{daemon(cluster)['metadata']['name']}"
    return str(cluster.log(path, container=container, **query))


def test_one_gpu_is_advertised_four_times_once_the_daemon_runs(cluster: Any, node: str) -> None:
    cluster.until(node, lambda n: advertised(n) == "4", 150)
    assert "set_default_active_thread_percentage 25" in said(cluster, "mps-control-daemon-ctr")


def test_gfd_labels_the_node_as_shared_by_mps(cluster: Any, node: str) -> None:
    found = cluster.until(node, lambda n: n if label(n, "gpu.replicas") == "4" and n else None, 90)
    assert label(found, "gpu.product") == "NVIDIA-A10G-SHARED"
    assert label(found, "gpu.sharing-strategy") == "mps"
    assert label(found, "mps.capable") == "true"


def test_a_new_label_reaches_the_plugin_but_not_the_daemon(cluster: Any, node: str) -> None:
    """As on real nodes with gpu-operator v26.7: config-manager looks for a process
    /usr/bin/mps-control-daemon, and it was started as mps-control-daemon. Source:
    NVIDIA/k8s-device-plugin #1827.
    """
    cluster.client.patch(node, {"metadata": {"labels": {LABEL: "two"}}})
    cluster.until(node, lambda n: advertised(n) == "2", 90)
    path = f"{PODS}/{daemon(cluster)['metadata']['name']}"

    def restarted(pod: dict[str, Any] | None) -> bool:
        statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
        return any(s["name"] == "config-manager" and s["restartCount"] > 0 for s in statuses)

    cluster.until(path, restarted, 60)
    assert "no process found" in said(cluster, "config-manager", previous="true")
    told = said(cluster, "mps-control-daemon-ctr")
    assert re.findall(r"set_default_active_thread_percentage (\d+)", told) == ["25"]
