"""Without Node Feature Discovery's labels the operator takes no node for one with GPUs: they come
from NFD's worker, if it may run on the node. 20 s.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.gpu_operator.conftest import (
    LAYOUTS,
    NAMESPACE,
    VALUES,
    install_operator,
)
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster

MACHINE = {"cloud": "eks", "gpu_model": "A10G", "gpu_count": 1, "driver_version": "570.133.20"}
PCI = "feature.node.kubernetes.io/pci-10de.present"
PRESENT = "nvidia.com/gpu.present"
TAINT = {"key": "team", "value": "web", "effect": "NoSchedule"}
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
FEATURES = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"


def labels(node: dict[str, Any] | None) -> dict[str, str]:
    return dict((node or {"metadata": {}})["metadata"].get("labels") or {})


def workers(cluster: Any) -> dict[str, str]:
    """Node -> phase of NFD's worker on it."""
    pods = cluster.client.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="role=worker")
    return {p["spec"].get("nodeName", ""): p["status"].get("phase", "") for p in pods["items"]}


def test_a_node_is_labelled_by_its_worker_and_then_by_the_operator(cluster: Any) -> None:
    node = cluster.add_node("found-0", MACHINE)
    found = cluster.until(node, lambda n: labels(n) if labels(n).get(PRESENT) == "true" else None)
    assert found[PCI] == "true"
    assert workers(cluster)["found-0"] == "Running"
    owners = cluster.client.get(f"{FEATURES}/found-0")["metadata"]["ownerReferences"]
    assert {owner["kind"] for owner in owners} == {"DaemonSet", "Pod"}
    cluster.client.delete(node)


def test_a_node_whose_taint_the_worker_does_not_tolerate_stays_without_labels_and_operands(
    cluster: Any,
) -> None:
    tainted = cluster.add_node("tainted-0", MACHINE, taints=(TAINT,))
    later = cluster.add_node("later-0", MACHINE)
    cluster.until(later, lambda n: labels(n).get(PRESENT) == "true")
    assert "tainted-0" not in workers(cluster)
    assert not {PCI, PRESENT} & set(labels(cluster.client.get(tainted)))
    # Without the taint it is found: nothing else was missing.
    cluster.client.patch(tainted, {"spec": {"taints": None}})
    cluster.until(tainted, lambda n: labels(n).get(PRESENT) == "true")
    for node in (tainted, later):
        cluster.client.delete(node)


def test_with_nfd_off_and_none_in_the_cluster_no_node_is_found(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> None:
    values = {**copy.deepcopy(VALUES), "nfd": {"enabled": False}}
    with running_cluster(tmp_path_factory.mktemp("without"), toolchain) as cluster:
        cluster.add_node("system")
        install_operator(cluster, values, LAYOUTS)
        node = cluster.add_node("gpu-0", MACHINE)

        def said() -> str:
            status = cluster.client.get(POLICY).get("status") or {}
            (ready,) = (c for c in status.get("conditions") or () if c["type"] == "Ready")
            return str(ready["reason"])

        deadline = time.monotonic() + 180
        while not cluster.client.get(POLICY).get("status"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert said() == "NFDLabelsMissing"
        assert PRESENT not in labels(cluster.client.get(node))
        daemon_sets = cluster.client.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets")
        assert daemon_sets["items"] == []
