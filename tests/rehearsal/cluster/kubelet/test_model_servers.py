"""The stand-in for vLLM in pods of a GKE node: each finds the one partition that it was given."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from tests.rehearsal.cluster.kubelet.test_gke_node import LABELS, MACHINE, gpus

IMAGE = "vllm/vllm-openai:v0.6.2"
KEY = "sk-only-for-this-test"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "llm", "namespace": "default"},
    "stringData": {"api-key": KEY},
}


@pytest.fixture(scope="module")
def node(cluster: Any, gke_device_plugin: None) -> str:
    """Two GPUs, each cut in two."""
    cluster.create(SECRET)
    path = cluster.add_node("gke-serving", {**MACHINE, "gpu_count": 2}, LABELS)
    cluster.until(path, lambda found: gpus(found) == "4")
    return "gke-serving"


def server(
    cluster: Any, name: str, node: str, *flags: str, gpu: bool = True, app: str = "llm"
) -> str:
    """A pod as the product makes it; its API path."""
    health = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1}
    key = {"name": "llm", "key": "api-key"}
    container = {
        "name": "vllm",
        "image": IMAGE,
        "args": ["--host=0.0.0.0", "--port=8000", "--model=org/model", *flags],
        "env": [
            {"name": "HOME", "value": "/home/server"},
            {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": key}},
        ],
        "ports": [{"name": "http", "containerPort": 8000}],
        "startupProbe": {**health, "failureThreshold": 300},
        "readinessProbe": health,
        "resources": {"limits": {"nvidia.com/gpu": "1"}} if gpu else {},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "home", "mountPath": "/home/server"},
        ],
    }
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
            "spec": {
                "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000},
                "terminationGracePeriodSeconds": 20,
                "nodeSelector": {"kubernetes.io/hostname": node},
                "containers": [container],
                "volumes": [
                    {"name": "shm", "emptyDir": {"medium": "Memory"}},
                    {"name": "home", "emptyDir": {}},
                ],
            },
        }
    )
    return f"/api/v1/namespaces/default/pods/{name}"


def end(cluster: Any, path: str) -> None:
    cluster.client.delete(path, gracePeriodSeconds="0")
    cluster.gone(path)


def version(pod: dict[str, Any]) -> dict[str, Any]:
    connection = http.client.HTTPConnection(pod["status"]["podIP"], 8000, timeout=120)
    connection.request("GET", "/version")
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def test_two_servers_are_ready_each_on_a_partition_of_its_own(cluster: Any, node: str) -> None:
    paths = [server(cluster, f"llm-{n}", node) for n in range(2)]
    found = [version(cluster.ready(path)) for path in paths]
    used = [device for one in found for device in one["devices"]]
    assert len({device["uuid"] for device in used}) == 2
    assert {device["name"].rpartition(" ")[2] for device in used} == {"3g.40gb"}
    assert {device["multiprocessors"] for device in used} == {60}
    for path, device in zip(paths, used, strict=True):
        log = cluster.log(path)
        assert device["uuid"] in log
        assert KEY not in log
        end(cluster, path)


@pytest.mark.parametrize("kind", ["ClusterIP", "LoadBalancer"])
def test_a_service_leads_to_the_pods_that_are_ready(cluster: Any, node: str, kind: str) -> None:
    paths = [server(cluster, f"served-{kind.lower()}-{n}", node, app=kind) for n in range(2)]
    used = {version(cluster.ready(path))["devices"][0]["uuid"] for path in paths}
    made = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": kind.lower(), "namespace": "default"},
        "spec": {
            "type": kind,
            "selector": {"app": kind},
            "ports": [{"name": "http", "port": 8000, "targetPort": "http"}],
        },
    }
    cluster.create(made)
    path = cluster.path(made)

    def address(service: dict[str, Any] | None) -> str:
        annotated = ((service or {})["metadata"].get("annotations") or {}).get(ADDRESS, "")
        given = ((service or {}).get("status") or {}).get("loadBalancer") or {}
        if kind == "LoadBalancer" and not given.get("ingress"):
            return ""
        assert [one["ip"] for one in given.get("ingress", [])] in ([], [annotated])
        return str(annotated)

    where = cluster.until(path, address)
    found = [version({"status": {"podIP": where}})["devices"][0]["uuid"] for _ in range(4)]
    assert set(found) == used
    end(cluster, paths[0])
    (left,) = version(cluster.ready(paths[1]))["devices"]
    assert [version({"status": {"podIP": where}})["devices"] for _ in range(2)] == [[left]] * 2
    cluster.client.delete(path)
    end(cluster, paths[1])


def test_one_without_a_partition_fails_as_pytorch_does(cluster: Any, node: str) -> None:
    path = server(cluster, "no-gpu", node, gpu=False)
    cluster.says(path, lambda log: "RuntimeError: " in log)
    end(cluster, path)


def test_a_flag_that_vllm_does_not_have_is_in_the_log(cluster: Any, node: str) -> None:
    path = server(cluster, "wrong-flag", node, "--max-modle-len=1")
    cluster.says(path, lambda log: "unrecognized arguments: --max-modle-len=1" in log)
    cluster.until(path, lambda pod: "CrashLoopBackOff" in json.dumps((pod or {}).get("status")))
    end(cluster, path)
