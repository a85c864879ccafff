"""A GKE node: GKE's plugin partitions its GPUs, and pods can request what it registers."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import delivery
from slicewright.rehearsal.host.processes import ENVIRONMENT_VARIABLE
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with

MACHINE = {
    "cloud": "gke",
    "gpu_model": "H100-80",
    "gpu_count": 8,
    "driver_version": "550.90.07",
    "gke_gpu_config": {
        "GPUPartitionSize": "3g.40gb",
        "MaxTimeSharedClientsPerGPU": 0,
        "GPUSharingConfig": None,
    },
}
LABELS = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}


def gpus(node: dict[str, Any] | None, field: str = "allocatable") -> str:
    return str(((node or {}).get("status") or {}).get(field, {}).get("nvidia.com/gpu"))


@pytest.fixture(scope="module")
def nodes(cluster: Any, gke_device_plugin: None) -> dict[str, str]:
    fault = {"kind": "wrong-layout", "gpu": 3, "profile": "1g.10gb"}
    return {
        "good": cluster.add_node("gke-good", MACHINE, LABELS),
        "faulty": cluster.add_node("gke-faulty", {**MACHINE, "fault": fault}, LABELS),
    }


def test_an_a100_reboots_once_and_then_offers_its_partitions(
    cluster: Any, gke_device_plugin: None
) -> None:
    config = {**MACHINE["gke_gpu_config"], "GPUPartitionSize": "3g.20gb"}  # type: ignore[dict-item]
    machine = {**MACHINE, "gpu_model": "A100-40", "gpu_count": 1, "gke_gpu_config": config}
    labels = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}
    path = cluster.add_node("gke-a100", machine, labels)
    cluster.until(path, lambda found: gpus(found) == "2")
    assert cluster.kubelet_log().count("node gke-a100 reboots") == 1


def ask_for_one_gpu(cluster: Any, name: str, node: str, image: str = "busybox") -> str:
    container = {"name": "c", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": node}},
    }
    cluster.create(pod)
    return f"/api/v1/namespaces/default/pods/{name}"


@pytest.fixture
def attribution(cluster: Any, nodes: dict[str, str]) -> str:
    """Address of the product's second container on the good node: as root, with the socket's
    directory and the code alone.
    """
    code = delivery.node_agent()
    metadata = {"name": "attribution", "namespace": "default"}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "binaryData": {code.name: code.base64},
        }
    )
    directory = "/var/lib/kubelet/pod-resources"
    container = {
        "name": "attribution",
        "image": "python:3.13-slim",
        "command": ["python", f"/opt/slicewright/{code.name}", "attribution", "--interval", "0.2"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "volumeMounts": [
            {"name": "code", "mountPath": "/opt/slicewright", "readOnly": True},
            {"name": "socket", "mountPath": directory, "readOnly": True},
        ],
    }
    spec = {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": "gke-good"},
        "automountServiceAccountToken": False,
        "volumes": [
            {"name": "code", "configMap": {"name": "attribution"}},
            {"name": "socket", "hostPath": {"path": directory, "type": "DirectoryOrCreate"}},
        ],
    }
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod = cluster.ready("/api/v1/namespaces/default/pods/attribution")
    return f"http://{pod['status']['podIP']}:9472"


def told_by(address: str, pods: set[str]) -> dict[str, str]:
    """Pod -> `nvidia<minor>/gi<instance>`, as soon as exactly these pods are told."""
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
                page = answer.read().decode()
        except OSError:
            page = ""  # it does not listen yet
        found = re.findall(
            r'pod_info\{minor="(\d+)",gpu_instance="(\d+)",.*pod="([^"]*)",container="c"\} 1', page
        )
        if {pod for _, _, pod in found} == pods and "slicewright_attribution_up 1" in page:
            return {pod: f"nvidia{minor}/gi{instance}" for minor, instance, pod in found}
        assert time.monotonic() < deadline, page
        time.sleep(0.2)


def test_metrics_name_the_pod_on_a_partition_until_it_is_deleted(
    cluster: Any, nodes: dict[str, str], attribution: str
) -> None:
    cluster.until(nodes["good"], lambda node: gpus(node) == "16")
    pods = {name: ask_for_one_gpu(cluster, name, "gke-good") for name in ("told-a", "told-b")}
    for path in pods.values():
        cluster.ready(path)
    # First: kwok may say that the pods run before the kubelet stand-in has allocated their devices.
    told = told_by(attribution, set(pods))
    accounts = json.loads((cluster.directory / "nodes" / "gke-good" / "devices.json").read_text())
    held = {
        name: accounts[cluster.client.get(path)["metadata"]["uid"]]["c"]["nvidia.com/gpu"]
        for name, path in pods.items()
    }
    assert {name: [device] for name, device in told.items()} == held
    cluster.client.delete(pods["told-a"])
    assert [told_by(attribution, {"told-b"})["told-b"]] == held["told-b"]
    for path in (pods["told-b"], "/api/v1/namespaces/default/pods/attribution"):
        cluster.client.delete(path)
        cluster.gone(path)


def test_sixteen_partitions_hold_sixteen_pods_and_no_more(
    cluster: Any, nodes: dict[str, str]
) -> None:
    cluster.until(nodes["good"], lambda node: gpus(node) == gpus(node, "capacity") == "16")
    pods = [ask_for_one_gpu(cluster, f"g{i}", "gke-good") for i in range(17)]

    def bound() -> int:
        return sum("nodeName" in cluster.client.get(p)["spec"] for p in pods)

    for path in pods[:16]:
        cluster.ready(path)
    assert bound() == 16
    cluster.client.delete(pods[0])
    cluster.ready(pods[16])


def test_its_plugin_is_a_fork_as_in_large_fleets(cluster: Any, nodes: dict[str, str]) -> None:
    cluster.until(nodes["good"], lambda node: gpus(node) == "16")
    commands = {
        pid: Path(f"/proc/{pid}/cmdline").read_bytes()
        for pid in pids_with(f"{ENVIRONMENT_VARIABLE}={cluster.environment.resolve()}")
    }
    plugins = [pid for pid, command in commands.items() if b"gke-gpu-device-plugin" in command]
    assert plugins
    for pid in plugins:
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        assert b"fork_server.py" in commands[int(parent)]


def test_a_wrong_layout_is_simulated_and_repaired(cluster: Any, nodes: dict[str, str]) -> None:
    offered = cluster.until(
        nodes["faulty"], lambda node: gpus(node) if gpus(node) not in ("None", "0") else None
    )
    assert offered != "16"
    machine = {"rehearsal.slicewright.io/machine": json.dumps(MACHINE)}
    cluster.client.patch(nodes["faulty"], {"metadata": {"annotations": machine}})
    cluster.until(nodes["faulty"], lambda node: gpus(node) == "16")


LOAD = """
import ctypes
try:
    library = ctypes.CDLL("libnvidia-ml.so.1")
except OSError:
    print("none")
else:
    count = ctypes.c_uint()
    print(library.nvmlInit_v2(), library.nvmlDeviceGetCount_v2(ctypes.byref(count)), count.value)
    print("CUDA", ctypes.CDLL("libcuda.so.1").cuInit(0))
"""


@pytest.mark.parametrize(
    ("pod", "way", "seen"),
    [
        ("nvml-none", "nothing", "none\n"),
        # The library without a device node: NVML_ERROR_DRIVER_NOT_LOADED, CUDA_ERROR_NO_DEVICE.
        ("nvml-library", "the driver's directory", "9 1 0\nCUDA 100\n"),
        ("nvml-nodes", "the driver's directory, privileged", "0 0 8\nCUDA 0\n"),
    ],
)
def test_only_containers_that_would_get_the_real_driver_get_the_fake(
    cluster: Any, nodes: dict[str, str], pod: str, way: str, seen: str
) -> None:
    spec: dict[str, Any] = {
        "nodeSelector": {"kubernetes.io/hostname": "gke-good"},
        "restartPolicy": "Never",
    }
    mounts = [{"name": "code", "mountPath": "/code"}]
    container: dict[str, Any] = {"volumeMounts": mounts, "env": []}
    if way.startswith("the driver's directory"):
        container["securityContext"] = {"privileged": way.endswith("privileged")}
        mounts.append({"name": "driver", "mountPath": "/usr/local/nvidia"})
        spec["volumes"] = [
            {
                "name": "driver",
                "hostPath": {"path": "/home/kubernetes/bin/nvidia", "type": "Directory"},
            }
        ]
        container["env"] = [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}]
    path = cluster.run_python(pod, LOAD, container=container, **spec)
    cluster.until(path, lambda p: p and p["status"].get("phase") in ("Succeeded", "Failed"))
    assert cluster.log(path) == seen
