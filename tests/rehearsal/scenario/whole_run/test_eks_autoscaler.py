"""An EKS pool that begins without nodes: cluster-autoscaler, installed by its chart, adds one for a
pod that asks for a partition, `up` keeps it, and it goes when the pod has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from kubeapi import Client
from rehearsal.cluster.control_plane import process_images
from rehearsal.scenario.engine_runs import Engine
from rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal]
SLICE = "nvidia.com/mig-1g.10gb"
PODS = "/api/v1/namespaces/default/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "wants", "namespace": "default"},
    "spec": {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {"name": "c", "image": "example.org/job:1", "resources": {"limits": {SLICE: "1"}}}
        ],
    },
}


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        # What NVIDIA's programs do is shown by the other runs.
        patch.setenv(process_images.VARIABLE, "simulated")
        environment = make_environment("s1-scaled")
        stack_file = environment.stack_file("s1")
        stack = yaml.safe_load(stack_file.read_text())
        fleet = stack["config"]["slicewright:fleet"]
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
        stack_file.write_text(yaml.safe_dump(stack))
        engine = Engine(environment, "s1", print)
        assert engine.init().code == 0
        yield engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    up = engine.up()
    assert up.code == 0, up.output
    return Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))


def gpu_nodes(client: Client) -> list[dict[str, Any]]:
    selector = "eks.amazonaws.com/nodegroup=demo-gpu-workers"
    return list(client.get("/api/v1/nodes", labelSelector=selector)["items"])


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 420
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_the_chart_runs_it_on_the_system_pool(client: Client) -> None:
    (pod,) = client.get(
        "/api/v1/namespaces/kube-system/pods",
        labelSelector="app.kubernetes.io/name=aws-cluster-autoscaler",
    )["items"]
    node = client.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")
    assert node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "system"
    assert gpu_nodes(client) == []


def test_a_pod_that_asks_for_a_partition_gets_a_node_that_is_verified(client: Client) -> None:
    client.create(PODS, POD)
    until(
        lambda: client.get(f"{PODS}/wants")["status"].get("phase") == "Running",
        "the pod never ran on a partition of a new node",
    )
    (node,) = gpu_nodes(client)
    assert client.get(f"{PODS}/wants")["spec"]["nodeName"] == node["metadata"]["name"]
    assert {k: v for k, v in node["status"]["allocatable"].items() if k.startswith("nvidia")} == {
        "nvidia.com/gpu": "0",
        SLICE: "7",
    }


def test_the_next_up_keeps_the_node(client: Client, engine: Engine) -> None:
    before = [node["spec"]["providerID"] for node in gpu_nodes(client)]
    again = engine.up("--expect-no-changes")
    assert again.code == 0, again.output
    assert [node["spec"]["providerID"] for node in gpu_nodes(client)] == before


def test_the_node_goes_when_nothing_needs_it(client: Client) -> None:
    client.delete(f"{PODS}/wants", gracePeriodSeconds="0")
    until(lambda: gpu_nodes(client) == [], "the empty node stays")


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
