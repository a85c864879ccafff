"""An EKS pool and a server that both begin with nothing: a request at the gateway brings a replica
by KEDA, that brings a node by cluster-autoscaler, which is verified before the server starts on it;
`up` keeps both, and when nobody asks any more the server goes, and then the node.

Prometheus, KEDA and Kubernetes' autoscaler are real; cluster-autoscaler, GPUs, NVIDIA's operands
and vLLM are simulated.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.cluster.kubelet.simulated_cluster import PYTHON
from tests.rehearsal.cluster.monitoring.installed import served_demand
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(1800),
    pytest.mark.long("a pool that grows from zero: tests/infra/on_engine/eks/test_autoscaler.py"),
]
SLICE = "nvidia.com/mig-1g.10gb"
DEPLOYMENT = "/apis/apps/v1/namespaces/ai/deployments/llm"
PODS = "/api/v1/namespaces/ai/pods"
GATEWAY = "/api/v1/namespaces/default/pods/gateway"
SERVER: dict[str, Any] = {
    "name": "llm",
    "kind": "vllm",
    "namespace": "ai",
    "pool": "demo-gpu-workers",
    "image": "vllm/vllm-openai:v0.6.2",
    "model": {"name": "org/small", "parameters": "500M"},
    "autoscaling": {
        "min": 0,
        "max": "partitions",
        "metric": "requests-waiting",
        "target": 1,
        "wake": "max(demand) or vector(0)",
        "cooldown": "45s",
        "fallback": {"failures": 1},
        "scale_down": {"stabilization": "0s"},
    },
}


@pytest.fixture(scope="module")
def engine(
    make_environment_with_all_tools: Callable[[str], Environment], simulated_programs: None
) -> Engine:
    environment = make_environment_with_all_tools("s1-scaled")
    with edited_fleet(environment.stack_file("eks-a100")) as fleet:
        down = {"unneeded_minutes": 1, "after_scale_up_minutes": 1}
        fleet["cluster"] |= {
            "region": "us-west-2",
            "zones": ["us-west-2a", "us-west-2b"],
            "version": "1.36",
            "autoscaler": {"mode": "cluster-autoscaler", "scale_down": down},
        }
        (pool,) = fleet["node_pools"]
        pool |= {
            "machine_type": "p5.4xlarge",
            "nodes": {"min": 0, "max": 2},
            "partition": {"mode": "operator", "layout": {"1g.10gb": 7}},
        }
        fleet["monitoring"] = {"prometheus": "stack", "scrape_interval": "2s"}
        fleet["workloads"] = [SERVER]
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def gateway(client: Client) -> Callable[[int], None]:
    """What is in front of the servers; it tells Prometheus how many ask."""
    made = {"name": "gateway", "namespace": "default", "labels": {"app": "gateway"}}
    client.create(
        "/api/v1/namespaces/default/configmaps",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": made,
            "data": {"main.py": served_demand(0)},
        },
    )
    container = {
        "name": "main",
        "image": PYTHON,
        "command": ["python", "/code/main.py"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "metrics", "containerPort": 8000}],
        "readinessProbe": {"tcpSocket": {"port": "metrics"}, "periodSeconds": 1},
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    client.create(
        "/api/v1/namespaces/default/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": made,
            "spec": {
                "containers": [container],
                "volumes": [{"name": "code", "configMap": {"name": "gateway"}}],
            },
        },
    )
    client.create(
        "/apis/monitoring.coreos.com/v1/namespaces/default/podmonitors",
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PodMonitor",
            "metadata": made | {"labels": {"release": "kube-prom-stack"}},
            "spec": {
                "selector": {"matchLabels": {"app": "gateway"}},
                "podMetricsEndpoints": [{"port": "metrics", "interval": "2s"}],
            },
        },
    )
    until(lambda: "Ready" in conditions(client.get(GATEWAY)), "the gateway runs", 600)
    address = client.get(GATEWAY)["status"]["podIP"]

    def asks(number: int) -> None:
        connection = http.client.HTTPConnection(address, 8000, timeout=30)
        connection.request("POST", f"/{number}")
        assert connection.getresponse().status == 204

    return asks


def conditions(found: dict[str, Any]) -> dict[str, str]:
    """Since when those are true that are."""
    return {
        one["type"]: one["lastTransitionTime"]
        for one in (found.get("status") or {}).get("conditions") or ()
        if one["status"] == "True"
    }


def gpu_nodes(client: Client) -> list[dict[str, Any]]:
    selector = "eks.amazonaws.com/nodegroup=demo-gpu-workers"
    return list(client.get("/api/v1/nodes", labelSelector=selector)["items"])


def replicas(client: Client) -> tuple[int, int]:
    """Wanted, and ready."""
    found = client.get(DEPLOYMENT)
    return found["spec"]["replicas"], found["status"].get("readyReplicas", 0)


def test_autoscaler_runs_on_the_system_pool_without_servers_and_gpu_nodes(
    client: Client,
) -> None:
    (pod,) = client.get(
        "/api/v1/namespaces/kube-system/pods",
        labelSelector="app.kubernetes.io/name=aws-cluster-autoscaler",
    )["items"]
    node = client.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    assert node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "system"
    # While Prometheus starts on a slow machine, KEDA falls back to one replica, which has a node.
    until(lambda: replicas(client) == (0, 0), "no server is wanted", 600)
    until(lambda: client.get(PODS)["items"] == [], "there is no server", 600)
    until(lambda: gpu_nodes(client) == [], "there is no GPU node", 600)


def test_a_request_brings_a_replica_and_that_a_node_which_is_verified_before_it_starts(
    client: Client, gateway: Callable[[int], None]
) -> None:
    gateway(1)
    until(lambda: replicas(client) == (1, 1), "a server runs on a partition of a new node", 600)
    (node,) = gpu_nodes(client)
    (pod,) = client.get(PODS)["items"]
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]
    # It was bound when the agent had proven the partitions, and the controller had let pods in.
    assert conditions(pod)["PodScheduled"] >= conditions(node)[names.NODE_CONDITION]
    assert names.STARTUP_TAINT_KEY not in {taint["key"] for taint in node["spec"].get("taints", ())}
    assert {k: v for k, v in node["status"]["allocatable"].items() if k.startswith("nvidia")} == {
        "nvidia.com/gpu": "0",
        SLICE: "7",
    }
    service = client.get("/api/v1/namespaces/ai/services/llm")
    address = service["metadata"]["annotations"][ADDRESS]
    connection = http.client.HTTPConnection(address, 8000, timeout=60)
    connection.request("GET", "/v1/models")
    assert connection.getresponse().status == 200


def test_the_next_up_keeps_the_node_and_the_replica(client: Client, engine: Engine) -> None:
    before = [node["spec"]["providerID"] for node in gpu_nodes(client)]
    again = engine.up("--expect-no-changes")
    assert again.code == 0, again.output
    assert [node["spec"]["providerID"] for node in gpu_nodes(client)] == before
    assert replicas(client) == (1, 1)


def test_server_and_then_node_are_removed_without_requests(
    client: Client, gateway: Callable[[int], None]
) -> None:
    gateway(0)
    until(lambda: replicas(client) == (0, 0), "the server goes", 600)
    until(lambda: gpu_nodes(client) == [], "the empty node goes", 600)
    for path in (GATEWAY, "/apis/monitoring.coreos.com/v1/namespaces/default/podmonitors/gateway"):
        client.delete(path)


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
