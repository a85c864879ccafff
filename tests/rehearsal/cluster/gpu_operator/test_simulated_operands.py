"""The tests of eks-a100, and a fleet of 200 nodes, with NVIDIA's operands simulated by the kubelet
stand-in. 45 s without the fleet.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.control_plane.process_images import VARIABLE
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.cluster.node.operands.mig_manager import PAUSED
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import faults
from tests.rehearsal.cluster.gpu_operator import test_s1 as s1
from tests.rehearsal.cluster.gpu_operator.conftest import LAYOUTS, VALUES, install_operator
from tests.rehearsal.cluster.kubelet.audit import AuditLog, audited
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster

nodes = s1.nodes
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/gpu-operator/pods"
MACHINE = {"cloud": "eks", "gpu_model": "H100-80", "gpu_count": 8, "driver_version": "580.95.05"}
FLEET = 200
VALIDATOR = "nvidia.com/gpu.deploy.operator-validator"


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditLog]:
    with audited(tmp_path_factory.mktemp("audit")) as log:
        yield log


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain, audit_log: AuditLog
) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "simulated")
        with running_cluster(tmp_path_factory.mktemp("simulated"), toolchain) as made:
            made.add_node("system")
            install_operator(made, VALUES, LAYOUTS)
            yield made


@pytest.mark.parametrize(
    "fact",
    [
        s1.test_whole_gpus_are_registered_and_labelled_before_any_layout,
        s1.test_the_label_partitions_every_gpu_after_a_reboot_and_the_plugin_registers_them,
        s1.test_pods_get_partitions_until_none_is_left,
        s1.test_a_wrong_layout_after_mig_managers_success_is_simulated_and_repaired,
    ],
)
def test_simulated_operands_match_nvidias_programs_on_s1(
    fact: Callable[..., None], cluster: Any, nodes: dict[str, str]
) -> None:
    fact(cluster, nodes)


def test_none_of_nvidias_programs_runs(cluster: Any, nodes: dict[str, str]) -> None:
    mark = str(cluster.environment).encode()
    programs = ("nvidia-mig-manager", "nvidia-device-plugin", "gpu-feature-discovery")
    for directory in Path("/proc").iterdir():
        with suppress(OSError):
            if directory.name.isdigit() and mark in (directory / "environ").read_bytes():
                assert (directory / "comm").read_text().strip() not in [p[:15] for p in programs]


def test_operands_write_with_the_rights_of_their_service_accounts(
    nodes: dict[str, str], audit_log: AuditLog
) -> None:
    def writers(resource: str) -> set[str]:
        writes = ("create", "update", "patch")
        requests = audit_log.requests()
        users = {r.user for r in requests if r.resource == resource and r.verb in writes}
        return {user.rpartition(":")[2] for user in users}

    assert writers("nodes") == {"nvidia-mig-manager"}
    worker = "gpu-operator-node-feature-discovery-worker"
    assert writers("nodefeatures") == {"nvidia-gpu-feature-discovery", worker}


def test_a_node_that_is_made_again_under_its_name_gets_operands_again(cluster: Any) -> None:
    """NFD has written the same features of a node of that name before."""
    for _ in range(2):
        path = cluster.add_node("again", MACHINE)
        cluster.until(path, lambda n: s1.label(n, "mig.config.state") == "success")
        cluster.client.delete(path)
        cluster.until(path, lambda n: n is None)


def test_held_partitioning_goes_on_when_it_is_let_go_though_mig_manager_was_recreated(
    cluster: Any,
) -> None:
    path = cluster.add_node("held", MACHINE, {VALIDATOR: "false"})
    cluster.until(path, lambda n: s1.label(n, "mig.config.state") == "success")
    faults.hold(cluster.client, "held", Holds(partitioning_from=0))
    change = {"nvidia.com/mig.config": "all-3g.40gb", "nvidia.com/mig.config.state": None}
    cluster.client.patch(path, {"metadata": {"labels": change}})
    cluster.until(path, lambda n: s1.label(n, "gpu.deploy.device-plugin") == PAUSED)
    node_fault = {"labelSelector": "app=nvidia-mig-manager", "fieldSelector": "spec.nodeName=held"}
    (before,) = cluster.client.get(PODS, **node_fault)["items"]
    cluster.client.delete(f"{PODS}/{before['metadata']['name']}")
    cluster.until(path, lambda _: another(cluster.client.get(PODS, **node_fault)["items"], before))
    assert s1.label(cluster.client.get(path), "mig.config.state") == "pending"
    silicon = cluster.directory / "nodes" / "held" / "silicon" / "state"
    assert [gpu.instances for gpu in state.load(silicon).gpus] == [()] * 8
    faults.hold(cluster.client, "held", None)
    cluster.until(path, lambda n: s1.label(n, "mig.config.state") == "success")
    cluster.until(path, lambda n: s1.allocatable(n, "nvidia.com/mig-3g.40gb") == "16")
    cluster.client.delete(path)


def another(pods: list[dict[str, Any]], before: dict[str, Any]) -> bool:
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    return [p["metadata"]["uid"] for p in running] not in ([], [before["metadata"]["uid"]])


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_200_nodes_are_partitioned_by_one_process(cluster: Any) -> None:
    # Their validators would be processes.
    labels = {VALIDATOR: "false", "fleet": "large"}
    for number in range(FLEET):
        cluster.add_node(f"fleet-{number}", MACHINE, labels)
    settled(cluster, {("all-disabled", "success", "8", None): FLEET})
    for number in range(FLEET):
        change = {"nvidia.com/mig.config": "all-3g.40gb", "nvidia.com/mig.config.state": None}
        cluster.client.patch(f"{NODES}/fleet-{number}", {"metadata": {"labels": change}})
    settled(cluster, {("all-3g.40gb", "success", "0", "16"): FLEET})
    for number in range(FLEET):
        cluster.client.delete(f"{NODES}/fleet-{number}")


def settled(cluster: Any, wanted: dict[Any, int], *, timeout_s: float = 600) -> None:
    """Waits until so many nodes of the fleet have layout, state, GPUs and partitions as wanted."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = Counter(
            (
                node["metadata"]["labels"].get("nvidia.com/mig.config"),
                node["metadata"]["labels"].get("nvidia.com/mig.config.state"),
                node["status"]["allocatable"].get("nvidia.com/gpu"),
                node["status"]["allocatable"].get("nvidia.com/mig-3g.40gb"),
            )
            for node in cluster.client.get(NODES, labelSelector="fleet=large")["items"]
        )
        if found == wanted:
            return
        assert time.monotonic() < deadline, found
        time.sleep(1)
