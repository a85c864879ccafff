"""NVIDIA's tritonserver in pods of a GKE node: each serves on the partition that it was given."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.gcp.gke import addons
from slicewright.rehearsal.cluster.kubelet.pods import shares
from slicewright.rehearsal.cluster.model_server.triton import repository
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal import kserve
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with, running_cluster
from tests.rehearsal.cluster.kubelet.test_gke_node import LABELS, MACHINE, gpus

SERVER, PATH = "10.0.0.9", "/shares/models"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an NFS server that has two models."""
    made = tmp_path_factory.mktemp("rehearsal")
    names = [repository.DEFAULT_MODEL, "other"]
    repository.write(shares.directory(made, SERVER, PATH), names, gpu_milliseconds=2)
    return made


@pytest.fixture(scope="module")
def cluster(environment: Path, triton_toolchain: Toolchain) -> Iterator[Any]:
    """A node with two GPUs, each cut in two."""
    with running_cluster(environment, triton_toolchain) as made:
        made.create(addons.device_plugin())
        path = made.add_node("gke-triton", {**MACHINE, "gpu_count": 2}, LABELS)
        made.until(path, lambda found: gpus(found) == "4")
        yield made


def server(cluster: Any, name: str, *arguments: str, gpu: bool = True, **nfs: Any) -> str:
    """A pod as the product makes it, but for the claim between it and the share; its API path."""
    health = {"httpGet": {"path": "/v2/health/ready", "port": "http"}, "periodSeconds": 1}
    container = {
        "name": "triton",
        "image": "nvcr.io/nvidia/tritonserver:23.05-py3",
        "command": ["/opt/tritonserver/bin/tritonserver"],
        "args": ["--model-repository=/models", "--exit-timeout-secs=15", *arguments],
        "ports": [{"name": "http", "containerPort": 8000}],
        "startupProbe": {**health, "failureThreshold": 300},
        "readinessProbe": health,
        "resources": {"limits": {"nvidia.com/gpu": "1"}} if gpu else {},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "models", "mountPath": "/models", "readOnly": True},
        ],
    }
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000},
                "terminationGracePeriodSeconds": 20,
                "nodeSelector": {"kubernetes.io/hostname": "gke-triton"},
                "containers": [container],
                "volumes": [
                    {"name": "shm", "emptyDir": {"medium": "Memory"}},
                    {"name": "models", "nfs": {"server": SERVER, "path": PATH, **nfs}},
                ],
            },
        }
    )
    return f"{PODS}/{name}"


def end(cluster: Any, path: str) -> None:
    cluster.client.delete(path, gracePeriodSeconds="0")
    cluster.gone(path)


def ask(pod: dict[str, Any], path: str, body: Any = None) -> int:
    return kserve.ask(pod["status"]["podIP"], path, body)[0]


def classes(pod: dict[str, Any], seed: int) -> tuple[kserve.Class, ...]:
    return kserve.classify(pod["status"]["podIP"], kserve.picture(seed))


def metric(pod: dict[str, Any], name: str) -> float:
    return kserve.metric(pod["status"]["podIP"], name)


def test_two_servers_answer_each_at_its_own_address_with_metrics_of_its_own(cluster: Any) -> None:
    paths = [server(cluster, f"triton-{n}", "--allow-gpu-metrics=false") for n in range(2)]
    first, second = (cluster.ready(path) for path in paths)
    assert [len(classes(pod, 7)) for pod in (first, second, second)] == [3, 3, 3]
    assert classes(first, 7) == classes(second, 7) != classes(first, 8)
    for one in classes(first, 8):
        assert one.label == repository.label(one.number)
    assert metric(first, "nv_inference_request_success") == 4
    assert metric(second, "nv_inference_request_success") == 3
    assert metric(first, "nv_inference_pending_request_count") == 0
    assert metric(first, "nv_inference_queue_duration_us") > 0
    _, metrics = kserve.ask(first["status"]["podIP"], "/metrics", port=kserve.METRICS)
    assert "nv_gpu" not in metrics
    devices = [re.findall(r"UUID: (MIG-[-0-9a-f]+)\), (\S+)", cluster.log(path)) for path in paths]
    assert {share for ((_, share),) in devices} == {"0.455"}  # 60 of 132 multiprocessors
    assert len({uuid for ((uuid, _),) in devices}) == 2
    for path in paths:
        end(cluster, path)


def test_the_arguments_of_the_pod_are_tritons_own(cluster: Any) -> None:
    path = server(cluster, "explicit", "--model-control-mode=explicit", "--load-model=other")
    pod = cluster.ready(path)
    assert ask(pod, "/v2/models/other/ready") == 200
    assert ask(pod, "/v2/models/densenet_onnx/ready") == 400
    assert ask(pod, "/v2/repository/models/densenet_onnx/load", {}) == 200
    assert len(classes(pod, 3)) == 3
    end(cluster, path)
    path = server(cluster, "unknown", "--no-such-option=1")
    cluster.says(path, lambda log: "unrecognized option" in log)
    end(cluster, path)


def test_a_killed_server_is_started_again_and_an_ended_one_says_so(cluster: Any) -> None:
    path = server(cluster, "killed")
    pod = cluster.ready(path)
    address = pod["status"]["podIP"]
    marked = pids_with(f"SLICEWRIGHT_REHEARSAL_POD_ADDRESS={address}")
    (process,) = (
        p for p in marked if "/bin/tritonserver" in Path(f"/proc/{p}/cmdline").read_text()
    )
    os.kill(process, signal.SIGKILL)

    def back(found: dict[str, Any] | None) -> bool:
        (status,) = ((found or {}).get("status") or {}).get("containerStatuses") or [{}]
        return bool(status.get("ready")) and status["restartCount"] == 1

    cluster.until(path, back)
    assert len(classes(pod, 3)) == 3
    end(cluster, path)


def test_without_a_device_it_ends_and_says_why(cluster: Any) -> None:
    path = server(cluster, "without", gpu=False)
    cluster.says(path, lambda log: "a model of kind KIND_GPU would fail" in log)
    end(cluster, path)


def test_a_share_that_the_server_does_not_have_is_not_mounted(cluster: Any) -> None:
    path = server(cluster, "elsewhere", path="/shares/none")

    def reason(found: dict[str, Any] | None) -> bool:
        return "No such file or directory" in json.dumps((found or {}).get("status"))

    cluster.until(path, reason)
    end(cluster, path)
