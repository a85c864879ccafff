"""An EKS pool whose nodes partition their GPUs when they boot: up, another layout, destroy.

No mig-manager comes to a node, whatever its labels; another layout
replaces the nodes one by one, and none is held because others have another layout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.fleet_watcher import POOLS
from tests.rehearsal.scenario.whole_run.waiting import is_held, until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "the node alone: tests/rehearsal/cluster/kubelet/test_boot_node.py; its program: "
        "tests/infra/manifests/test_boot_program.py"
    ),
]
POOL = "demo-gpu-workers"
MIG_MANAGER = f"{names.DEPLOY_LABEL_PREFIX}mig-manager"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{names.NAMESPACE}/daemonsets"


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    environment = make_environment("s1-boot")
    with edited_fleet(environment.stack_file("eks-a100")) as fleet:
        fleet["cluster"] |= {"region": "us-west-2", "zones": ["us-west-2a", "us-west-2b"]}
        (pool,) = fleet["node_pools"]
        pool |= {
            "machine_type": "p5.4xlarge",
            "nodes": {"count": 2},
            "partition": {"mode": "boot", "layout": {"3g.40gb": 2}},
        }
        fleet["verify_timeout_minutes"] = 6
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


def gpu_nodes(client: Client) -> list[dict[str, Any]]:
    selector = f"{names.POOL_LABEL}={POOL}"
    return list(client.get("/api/v1/nodes", labelSelector=selector)["items"])


def partitions(node: dict[str, Any]) -> dict[str, str]:
    allocatable = node["status"]["allocatable"]
    return {
        resource: count
        for resource, count in allocatable.items()
        if resource.startswith("nvidia.com/mig-") and count != "0"
    }


def reason(node: dict[str, Any]) -> str:
    conditions = {c["type"]: c for c in node["status"].get("conditions") or ()}
    return str(conditions.get(names.NODE_CONDITION, {}).get("reason", ""))


def mig_managers(client: Client) -> list[str]:
    """The nodes with a pod of mig-manager that runs."""
    pods = client.get("/api/v1/namespaces/gpu-operator/pods")["items"]
    return [
        pod["spec"].get("nodeName", "")
        for pod in pods
        if pod["metadata"]["name"].startswith("nvidia-mig-manager")
        and pod["status"].get("phase") == "Running"
    ]


@dataclass
class Seen:
    nodes: set[tuple[str, bool]] = field(default_factory=set)
    """The reasons of the pool's nodes, and whether the node was held."""
    pool: set[str] = field(default_factory=set)
    """The reasons of the pool's condition Progressing."""


@contextmanager
def reasons_seen(client: Client) -> Iterator[Seen]:
    seen = Seen()
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.3):
            seen.nodes.update((reason(node), is_held(node)) for node in gpu_nodes(client))
            conditions = client.get(f"{POOLS}/{POOL}")["status"]["conditions"]
            seen.pool.update(c["reason"] for c in conditions if c["type"] == "Progressing")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join(timeout=60)


def test_up_verifies_nodes_that_mig_manager_never_touched(client: Client) -> None:
    nodes = gpu_nodes(client)
    assert [partitions(node) for node in nodes] == [{"nvidia.com/mig-3g.40gb": "2"}] * 2
    assert [is_held(node) for node in nodes] == [False, False]
    assert {node["metadata"]["labels"][MIG_MANAGER] for node in nodes} == {"false"}
    assert not any(names.MIG_STATE_LABEL in node["metadata"]["labels"] for node in nodes)
    assert mig_managers(client) == []


def test_no_mig_manager_comes_if_somebody_removes_its_label(client: Client) -> None:
    path = f"/api/v1/nodes/{gpu_nodes(client)[0]['metadata']['name']}"
    client.patch(path, {"metadata": {"labels": {MIG_MANAGER: None}}}, kind="merge")
    until(
        lambda: client.get(path)["metadata"]["labels"].get(MIG_MANAGER) == "true",
        "the operator has set its own value",
    )
    assert mig_managers(client) == []
    assert names.MIG_CONFIG_LABEL not in client.get(path)["metadata"]["labels"]
    assert partitions(client.get(path)) == {"nvidia.com/mig-3g.40gb": "2"}
    client.patch(path, {"metadata": {"labels": {MIG_MANAGER: "false"}}}, kind="merge")


def test_another_layout_replaces_the_nodes_and_holds_none_of_the_others(
    client: Client, engine: Engine
) -> None:
    before = {node["spec"]["providerID"] for node in gpu_nodes(client)}
    with edited_fleet(engine.environment.stack_file("eks-a100")) as fleet:
        fleet["node_pools"][0]["partition"]["layout"] = {"1g.10gb": 7}
    with reasons_seen(client) as seen:
        outcome = engine.up()
    assert outcome.code == 0, outcome.output
    nodes = gpu_nodes(client)
    assert {node["spec"]["providerID"] for node in nodes} & before == set()
    assert [partitions(node) for node in nodes] == [{"nvidia.com/mig-1g.10gb": "7"}] * 2
    # A new node is proven before or after its pool gets the new layout: a race of two quick steps.
    assert "NodesBeingReplaced" in seen.pool
    assert ("BootedWithOtherLayout", True) not in seen.nodes
    reasons = {r for r, _ in seen.nodes}
    assert not {"WrongLayout", "LayoutIncomplete", "ReportOfAnotherLayout"} & reasons
    agents = [
        daemon_set["metadata"]["name"]
        for daemon_set in client.get(DAEMON_SETS)["items"]
        if daemon_set["metadata"]["name"].startswith("node-agent-")
    ]
    label = nodes[0]["metadata"]["labels"][names.BOOT_LAYOUT_LABEL]
    assert agents == [f"node-agent-{POOL}-{label}"]


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
