"""Nodes whose driver or container toolkit comes after their pods, or goes for a while."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from slicewright.rehearsal.cluster.node.machine import ANNOTATION

EKS = {"cloud": "eks", "gpu_model": "A100-40", "gpu_count": 8, "driver_version": "580.159.03"}
GKE = {"cloud": "gke", "gpu_model": "H100-80", "gpu_count": 8, "driver_version": "550.90.07"}
NO_RUNTIME = 'no runtime for "nvidia" is configured'
WATCH = """
import ctypes, os, time

# By its path where it is mounted: glibc remembers for the life of a process which directories of
# LD_LIBRARY_PATH do not exist.
name = "/usr/local/nvidia/lib64/libnvidia-ml.so.1"
if not os.path.isdir("/usr/local/nvidia"):
    name = "libnvidia-ml.so.1"
last = None
while True:
    try:
        library = ctypes.CDLL(name)
        count = ctypes.c_uint()
        result = library.nvmlInit_v2()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        seen = f"NVML {result}, {count.value} GPUs"
    except OSError:
        seen = "no library"
    seen += ", loaded" if os.path.exists("/proc/driver/nvidia/version") else ", not loaded"
    if seen != last:
        print(seen, flush=True)
    last = seen
    time.sleep(0.1)
"""
DRIVER = {"name": "driver", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}}
DEV = {"name": "dev", "hostPath": {"path": "/dev"}}


@pytest.fixture(scope="module", autouse=True)
def runtime_class(cluster: Any) -> None:
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    path = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
    cluster.client.patch(path, runtime, kind="apply", fieldManager="t", force="true")


def hold(cluster: Any, node: str, machine: Mapping[str, Any], **held: Any) -> None:
    """From now on; without `held` nothing is."""
    fault = {"fault": {"kind": "hold", **held}} if held else {}
    annotation = {ANNOTATION: json.dumps({**machine, **fault})}
    cluster.client.patch(node, {"metadata": {"annotations": annotation}})


def start_watching(cluster: Any, name: str, node: str, *, asks: bool = True, **spec: Any) -> str:
    """A pod that logs what NVML shows it, whenever that changes."""
    mounts = [{"name": "code", "mountPath": "/code"}]
    container: dict[str, Any] = {"volumeMounts": mounts}
    if spec.get("runtimeClassName"):
        container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] if asks else []
    else:
        container["securityContext"] = {"privileged": True}
        mounts.append({"name": "driver", "mountPath": "/usr/local/nvidia"})
        mounts += [{"name": "dev", "mountPath": "/dev"}] if DEV in spec["volumes"] else []
    return str(
        cluster.run_python(
            name, WATCH, container=container, nodeSelector={"kubernetes.io/hostname": node}, **spec
        )
    )


def logged(cluster: Any, path: str, last: str) -> list[str]:
    """The log's lines, as soon as the last of them is `last`."""
    log = cluster.says(path, lambda log: log.endswith("\n") and log.splitlines()[-1] == last)
    return list(log.splitlines())


def test_a_gke_container_from_before_the_driver_sees_its_library_and_no_gpu(cluster: Any) -> None:
    late = {**GKE, "driver_after_s": 0.5}
    node = cluster.add_node("gke-late", {**late, "fault": {"kind": "hold", "driver": True}})
    before = start_watching(cluster, "before", "gke-late", volumes=[DRIVER])
    follows = start_watching(cluster, "follows", "gke-late", volumes=[DRIVER, DEV])
    for path in (before, follows):
        cluster.ready(path)
        assert logged(cluster, path, "no library, not loaded") == ["no library, not loaded"]
    hold(cluster, node, late)
    # NVML_ERROR_DRIVER_NOT_LOADED, for ever: it has no device node.
    assert "no library, not loaded" in logged(cluster, before, "NVML 9, 0 GPUs, loaded")
    # As GKE's own plugin, which mounts the host's /dev.
    logged(cluster, follows, "NVML 0, 8 GPUs, loaded")
    after = start_watching(cluster, "after", "gke-late", volumes=[DRIVER])
    cluster.ready(after)
    assert logged(cluster, after, "NVML 0, 8 GPUs, loaded") == ["NVML 0, 8 GPUs, loaded"]
    assert cluster.log(before).splitlines()[-1] == "NVML 9, 0 GPUs, loaded"


def test_only_who_asks_nvidias_runtime_gets_the_driver(cluster: Any) -> None:
    cluster.add_node("eks-asked", EKS)
    path = start_watching(cluster, "not-asked", "eks-asked", runtimeClassName="nvidia", asks=False)
    cluster.ready(path)
    assert logged(cluster, path, "no library, loaded") == ["no library, loaded"]


CUDA = """
import ctypes, os
try:
    print("CUDA", ctypes.CDLL("libcuda.so.1").cuInit(0))
except OSError:
    print("no libcuda")
print("uvm" if os.path.exists("/dev/nvidia-uvm") else "no uvm", flush=True)
"""


@pytest.mark.parametrize(
    ("capabilities", "seen"),
    [("utility", "no libcuda\nno uvm\n"), ("compute,utility", "CUDA 0\nuvm\n")],
)
def test_nvidias_runtime_brings_libcuda_with_the_capability_compute(
    cluster: Any, capabilities: str, seen: str
) -> None:
    cluster.add_node(node := f"eks-{capabilities.replace(',', '-')}", EKS)
    environment = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": capabilities}
    container = {"env": [{"name": name, "value": value} for name, value in environment.items()]}
    path = cluster.run_python(
        f"cuda-{node}",
        CUDA,
        container=container,
        restartPolicy="Never",
        nodeSelector={"kubernetes.io/hostname": node},
    )
    cluster.until(path, lambda pod: pod and pod["status"].get("phase") in ("Succeeded", "Failed"))
    assert cluster.log(path) == seen


def test_a_gke_node_has_no_runtime_nvidia(cluster: Any) -> None:
    cluster.add_node("gke-runtime", GKE)
    path = start_watching(cluster, "gke-asks", "gke-runtime", runtimeClassName="nvidia")
    pod = cluster.until(path, lambda pod: pod if "podIP" in pod["status"] else None)
    assert _status(pod)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    _until_warned(cluster, "gke-asks", "FailedCreatePodSandBox")
    assert _status(cluster.client.get(path)) == _status(pod)
    cluster.client.delete(path)
    cluster.gone(path)


def test_without_driver_nvidias_runtime_creates_no_container_until_it_is_there(
    cluster: Any,
) -> None:
    node = cluster.add_node("eks-late", {**EKS, "fault": {"kind": "hold", "driver": True}})
    path = start_watching(cluster, "eks-asks", "eks-late", runtimeClassName="nvidia")

    def refused(pod: dict[str, Any]) -> bool:
        (status,) = pod["status"].get("containerStatuses") or [{}]
        waiting = status.get("state", {}).get("waiting", {})
        return waiting.get("reason") == "RunContainerError" and "driver not loaded" in str(waiting)

    cluster.until(path, refused)
    hold(cluster, node, EKS)
    cluster.ready(path)
    assert logged(cluster, path, "NVML 0, 8 GPUs, loaded") == ["NVML 0, 8 GPUs, loaded"]


def test_pods_of_the_runtime_class_wait_for_the_toolkit_and_survive_its_restart(
    cluster: Any,
) -> None:
    node = cluster.add_node("eks-toolkit", {**EKS, "fault": {"kind": "hold", "toolkit": True}})
    first = start_watching(cluster, "first", "eks-toolkit", runtimeClassName="nvidia")
    cluster.ready(cluster.run_python("other", "import time; time.sleep(600)"))
    assert NO_RUNTIME in _until_warned(cluster, "first", "FailedCreatePodSandBox")
    hold(cluster, node, EKS)
    before = _status(cluster.ready(first))
    # The toolkit restarts: it takes its configuration out of containerd, and puts it back.
    hold(cluster, node, EKS, toolkit=True)
    _until(lambda: not _configured(cluster, "eks-toolkit"))
    second = start_watching(cluster, "second", "eks-toolkit", runtimeClassName="nvidia")
    assert NO_RUNTIME in _until_warned(cluster, "second", "FailedCreatePodSandBox")
    assert _status(cluster.client.get(first)) == before
    hold(cluster, node, EKS)
    cluster.ready(second)
    assert _status(cluster.client.get(first)) == before


def test_a_container_that_restarts_while_the_toolkit_does_waits_too(cluster: Any) -> None:
    node = cluster.add_node("eks-restart", EKS)
    container = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    path = cluster.run_python(
        "ends",
        "import os, time\nwhile not os.path.exists('/tmp/end/now'): time.sleep(0.05)\n"
        "os.unlink('/tmp/end/now')",
        runtimeClassName="nvidia",
        nodeSelector={"kubernetes.io/hostname": "eks-restart"},
        volumes=[{"name": "end", "emptyDir": {}}],
        container={
            **container,
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"},
                {"name": "end", "mountPath": "/tmp/end"},
            ],
        },
    )
    uid = cluster.ready(path)["metadata"]["uid"]
    hold(cluster, node, EKS, toolkit=True)
    _until(lambda: not _configured(cluster, "eks-restart"))
    files = cluster.directory / "nodes" / "eks-restart"
    (volume,) = (p for p in (files / "pods" / uid).rglob("end") if p.is_dir())
    (volume / "now").touch()

    def waits(pod: dict[str, Any]) -> bool:
        waiting = _status(pod)["state"].get("waiting", {})
        return waiting.get("reason") == "CreateContainerError" and NO_RUNTIME in str(waiting)

    cluster.until(path, waits)
    hold(cluster, node, EKS)
    assert _status(cluster.ready(path))["restartCount"] == 1


def test_a_held_pod_starts_when_it_is_let_go_and_can_be_deleted_before(cluster: Any) -> None:
    held = {"kind": "hold", "pods": ["held-"]}
    node = cluster.add_node("eks-held", {**EKS, "fault": held})
    paths = {
        name: start_watching(cluster, name, "eks-held", runtimeClassName="nvidia")
        for name in ("held-a", "held-b", "free")
    }
    cluster.ready(paths["free"])
    for name in ("held-a", "held-b"):
        pod = cluster.until(paths[name], lambda pod: pod if pod["status"].get("podIP") else None)
        assert _status(pod)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    cluster.client.delete(paths["held-a"])
    cluster.gone(paths["held-a"])
    hold(cluster, node, EKS)
    cluster.ready(paths["held-b"])


def _configured(cluster: Any, node: str) -> bool:
    """Whether the toolkit has configured the node's containerd."""
    files = cluster.directory / "nodes" / node / "root/etc/containerd/conf.d"
    return any(files.glob("*"))


def _status(pod: dict[str, Any]) -> dict[str, Any]:
    (status,) = pod["status"]["containerStatuses"]
    return dict(status)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _until_warned(cluster: Any, pod: str, reason: str) -> str:
    """The message of the pod's first such event."""
    found: list[str] = []

    def warned() -> bool:
        events = cluster.client.get("/api/v1/events", fieldSelector=f"reason={reason}")["items"]
        found.extend(e["message"] for e in events if e["involvedObject"]["name"] == pod)
        return bool(found)

    _until(warned)
    return found[0]
