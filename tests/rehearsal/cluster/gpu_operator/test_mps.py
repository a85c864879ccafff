"""Sharing by MPS: NVIDIA's own daemon, device plugin and GFD over a stand-in for CUDA's control
program. 30 s, or 60 where the device plugin asks for the daemon before it runs.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any

import pytest

from slicewright.kubeapi import ApiError
from tests.rehearsal.cluster.gpu_operator.conftest import NAMESPACE, VALUES
from tests.rehearsal.cluster.gpu_operator.test_sharing import (
    LABEL,
    MACHINE,
    POLICY,
    advertised,
    label,
)

pytestmark = pytest.mark.long(
    "MPS in a whole run: tests/rehearsal/scenario/whole_run/test_eks_fleet.py"
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


def _client(name: str) -> dict[str, Any]:
    """A pod with a part of the GPU, which prints what it was given, and stays."""
    script = "echo $CUDA_MPS_PIPE_DIRECTORY has $(cd $CUDA_MPS_PIPE_DIRECTORY; ls -d control)"
    container = {
        "name": "c",
        "image": "nvcr.io/nvidia/cuda:13.0.1-base-ubuntu24.04",
        "command": ["sh", "-c", f"{script}; sleep infinity"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "part"}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
        },
    }


def daemon(cluster: Any) -> dict[str, Any]:
    """The daemon's pod."""
    (found,) = cluster.client.get(PODS, labelSelector=f"app={DAEMON}")["items"]
    return dict(found)


def said(cluster: Any, container: str, **query: str) -> str:
    path = f"{PODS}/{daemon(cluster)['metadata']['name']}"
    return str(cluster.log(path, container=container, **query))


def wait_for_log(cluster: Any, app: str, container: str, text: str) -> None:
    """Until a running pod of the app has said it."""
    deadline = time.monotonic() + 240
    logs: list[str] = []
    while not any(text in log for log in logs):
        assert time.monotonic() < deadline, logs
        time.sleep(0.5)
        pods = cluster.client.get(PODS, labelSelector=f"app={app}")["items"]
        logs = []
        for pod in pods:
            if pod["status"].get("phase") == "Running":
                # The pod may have been replaced since it was listed.
                with suppress(ApiError):
                    path = f"{PODS}/{pod['metadata']['name']}"
                    logs.append(cluster.log(path, container=container))


def test_one_gpu_is_advertised_four_times_once_the_daemon_runs(cluster: Any, node: str) -> None:
    cluster.until(node, lambda n: advertised(n) == "4", 240)
    chosen = "set_default_active_thread_percentage 25"
    wait_for_log(cluster, DAEMON, "mps-control-daemon-ctr", chosen)


def test_gfd_labels_the_node_as_shared_by_mps(cluster: Any, node: str) -> None:
    found = cluster.until(node, lambda n: n if label(n, "gpu.replicas") == "4" and n else None)
    assert label(found, "gpu.product") == "NVIDIA-A10G-SHARED"
    assert label(found, "gpu.sharing-strategy") == "mps"
    assert label(found, "mps.capable") == "true"


def test_four_of_five_pods_have_a_share_and_the_daemons_directory(cluster: Any, node: str) -> None:
    for number in range(5):
        cluster.create(_client(f"part-{number}"))

    def running() -> list[str]:
        pods = cluster.client.get(PODS, labelSelector="app=part")["items"]
        return [p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Running"]

    deadline = time.monotonic() + 180
    while len(run := running()) < 4:
        assert time.monotonic() < deadline, run
        time.sleep(0.2)
    for name in run:
        told = cluster.says(f"{PODS}/{name}", lambda log: log.endswith("\n"), container="c")
        assert told == "/mps/nvidia.com/gpu/pipe has control\n"
    (left,) = {f"part-{n}" for n in range(5)} - set(run)
    assert cluster.client.get(f"{PODS}/{left}")["status"]["phase"] == "Pending"
    cluster.client.delete(PODS, labelSelector="app=part")


def test_a_new_label_reaches_the_plugin_but_not_the_daemon(cluster: Any, node: str) -> None:
    """As on real nodes with gpu-operator v26.7: config-manager looks for a process
    /usr/bin/mps-control-daemon, and it was started as mps-control-daemon. Source:
    NVIDIA/k8s-device-plugin #1827.
    """
    cluster.client.patch(node, {"metadata": {"labels": {LABEL: "two"}}})
    cluster.until(node, lambda n: advertised(n) == "2")
    path = f"{PODS}/{daemon(cluster)['metadata']['name']}"
    cluster.says(
        path, lambda log: "no process found" in log, container="config-manager", previous="true"
    )
    told = said(cluster, "mps-control-daemon-ctr")
    assert re.findall(r"set_default_active_thread_percentage (\d+)", told) == ["25"]


def test_a_config_that_is_not_the_default_is_missed_by_the_daemon(cluster: Any, node: str) -> None:
    """Its config-manager links the default without waiting for the label, and cannot signal it.

    Now and then it hears of the label first: then its pod is made anew here.
    """
    cluster.client.patch(POLICY, {"spec": {"devicePlugin": {"config": {"default": ""}}}})
    deadline = time.monotonic() + 240
    log = ""
    while "No devices are configured for MPS" not in log:
        assert time.monotonic() < deadline, log
        time.sleep(0.5)
        # The pod may be replaced, or not run yet.
        with suppress(ApiError, ValueError):
            path = f"{PODS}/{daemon(cluster)['metadata']['name']}"
            log = str(cluster.log(path, container="mps-control-daemon-ctr"))
            if "set_default_active_thread_percentage 50" in log:
                cluster.client.delete(path)
    plugin = ("nvidia-device-plugin-daemonset", "nvidia-device-plugin")
    wait_for_log(cluster, *plugin, "error waiting for MPS daemon")
    cluster.until(node, lambda n: advertised(n) in (None, "0"))
