"""An EKS pool that begins without nodes: Karpenter, installed by its charts, makes a machine for a
pod that asks for a partition; the node holds its startup taint until its agent has proven it; and
`slicewright destroy` and its sweep leave nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.test_eks_autoscaler import SLICE
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "Karpenter's pools on the engine: tests/infra/on_engine/eks/test_karpenter.py"
    ),
]
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
STARTUP = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
PODS = "/api/v1/namespaces/default/pods"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "wants", "namespace": "default"},
    "spec": {
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "slicewright.io/no-whole-gpu", "operator": "Exists"},
        ],
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {"name": "c", "image": "example.org/job:1", "resources": {"limits": {SLICE: "1"}}}
        ],
    },
}


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment], simulated_programs: None) -> Engine:
    environment = make_environment("s1-karpenter")
    with edited_fleet(environment.stack_file("eks-a100")) as fleet:
        fleet["cluster"] |= {
            "region": "us-west-2",
            "zones": ["us-west-2a", "us-west-2b"],
            "version": "1.36",
            "autoscaler": "karpenter",
        }
        (pool,) = fleet["node_pools"]
        del pool["ami_type"]
        pool |= {
            "machine_type": "p5.4xlarge",
            "nodes": {"min": 0, "max": 2},
            "release_version": "1.36.2-20260714",
            "partition": {"mode": "operator", "layout": {"1g.10gb": 7}},
        }
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


def gpu_nodes(client: Client) -> list[dict[str, Any]]:
    selector = "karpenter.sh/nodepool=demo-gpu-workers"
    return list(client.get("/api/v1/nodes", labelSelector=selector)["items"])


def startup_taints(node: dict[str, Any]) -> list[str]:
    return [t["key"] for t in node["spec"].get("taints") or () if t["key"] == STARTUP]


def test_up_makes_no_machine(client: Client, engine: Engine) -> None:
    assert gpu_nodes(client) == []
    assert "ec2.instance" not in engine.environment.inventory()


def test_a_pod_for_a_partition_runs_on_a_machine_that_was_verified(
    client: Client, engine: Engine
) -> None:
    client.create(PODS, POD)
    until(lambda: bool(gpu_nodes(client)), "a node comes", 600)
    ran_before_proof = False

    def runs() -> bool:
        nonlocal ran_before_proof
        held = any(startup_taints(node) for node in gpu_nodes(client))
        running = client.get(f"{PODS}/wants")["status"].get("phase") == "Running"
        ran_before_proof |= running and held
        return bool(running)

    until(runs, "the pod runs on a partition of a new node", 600)
    assert not ran_before_proof
    (node,) = gpu_nodes(client)
    assert startup_taints(node) == []
    assert client.get(f"{PODS}/wants")["spec"]["nodeName"] == node["metadata"]["name"]
    assert node["status"]["allocatable"][SLICE] == "7"
    assert len(engine.environment.inventory()["ec2.instance"]) == 1


def test_the_next_up_keeps_the_machine(client: Client, engine: Engine) -> None:
    before = [node["spec"]["providerID"] for node in gpu_nodes(client)]
    again = engine.up("--expect-no-changes")
    assert again.code == 0, again.output
    assert [node["spec"]["providerID"] for node in gpu_nodes(client)] == before


def test_destroy_ends_the_machine_first_and_leaves_nothing(client: Client, engine: Engine) -> None:
    (claim,) = client.get(CLAIMS)["items"]
    assert claim["metadata"]["ownerReferences"][0]["kind"] == "NodePool"
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
