"""Node Feature Discovery's own worker and master in place of the stand-ins: what the operator makes
of their labels, on the nodes of eks-a100. 60 s, and once some minutes to build them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.feature_discovery import objects
from slicewright.rehearsal.cluster.node import os_release
from slicewright.rehearsal.cluster.node.operands import node_features
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.charts.gpu_operator import after_delete
from tests.rehearsal.cluster.gpu_operator import test_node_feature_discovery as found
from tests.rehearsal.cluster.gpu_operator import test_s1 as s1
from tests.rehearsal.cluster.gpu_operator.conftest import (
    LAYOUTS,
    NAMESPACE,
    VALUES,
    install_operator,
)
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
nodes = s1.nodes
PROGRAMS = ("nfd_worker", "nfd_master", "nfd_gc")
ON_NODES = "/api/v1/nodes"
NFD = "gpu-operator-node-feature-discovery"


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
    toolchain: Toolchain,
    one_tool: Callable[[str], Path],
) -> Iterator[Any]:
    tools = replace(toolchain, **{field: one_tool(field) for field in PROGRAMS})
    with running_cluster(tmp_path_factory.mktemp("nfd"), tools) as made:
        made.add_node("system")
        install_operator(made, VALUES, LAYOUTS)
        yield made


def running(cluster: Any) -> set[str]:
    """Names of processes of this cluster."""
    mark, names = str(cluster.environment).encode(), set()
    for directory in Path("/proc").iterdir():
        try:
            if directory.name.isdigit() and mark in (directory / "environ").read_bytes():
                names.add((directory / "comm").read_text().strip())
        except OSError:
            continue
    return names


@pytest.mark.parametrize(
    "fact",
    [
        s1.test_whole_gpus_are_registered_and_labelled_before_any_layout,
        s1.test_the_validators_cuda_pod_has_completed_on_each_node,
        s1.test_the_label_partitions_every_gpu_after_a_reboot_and_the_plugin_registers_them,
        s1.test_pods_get_partitions_until_none_is_left,
    ],
)
def test_s1_is_the_same_with_upstream_nfd_and_the_stand_ins(
    fact: Callable[..., None], cluster: Any, nodes: dict[str, str]
) -> None:
    fact(cluster, nodes)


def test_they_are_nfds_own(cluster: Any, nodes: dict[str, str]) -> None:
    assert {"nfd-worker", "nfd-master"} <= running(cluster)


def test_every_label_of_the_stand_ins_is_among_theirs(cluster: Any, nodes: dict[str, str]) -> None:
    node = cluster.client.get(nodes["good"])
    root = cluster.directory / "nodes" / "gpu-0" / "root"
    ours = node_features.labels(
        node_features.pci_devices(root / "sys"),
        os_release.os_release(node["status"]["nodeInfo"]["osImage"]),
        Path("/proc/sys/kernel/osrelease").read_text().strip(),
    )
    assert found.PCI in ours
    assert ours.items() <= found.labels(node).items()


def test_their_note_on_the_node_is_read_as_the_stand_ins_own(
    cluster: Any, nodes: dict[str, str]
) -> None:
    """What the clean-up stand-in takes back is every label that NFD's master wrote."""
    node = cluster.client.get(nodes["good"])
    features = cluster.client.get(
        f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
    )
    node_fault = [one for one in features["items"] if objects.node_of(one) == "gpu-0"]
    noted = {
        name if "/" in name else f"{node_features.PREFIX}{name}"
        for name in node["metadata"]["annotations"][objects.OWNED].split(",")
    }
    assert noted == set(objects.merged(node_fault))


def test_a_node_whose_taint_the_worker_does_not_tolerate_stays_without_labels(
    cluster: Any,
) -> None:
    found.test_a_node_whose_taint_the_worker_does_not_tolerate_stays_without_labels_and_operands(
        cluster
    )


def test_cleanup_of_upstream_nfd_removes_its_labels(cluster: Any, nodes: dict[str, str]) -> None:
    path = nodes["good"]
    apps = f"/apis/apps/v1/namespaces/{NAMESPACE}"
    cluster.client.delete(f"{apps}/deployments/{NFD}-master")
    cluster.client.delete(f"{apps}/daemonsets/{NFD}-worker")
    cluster.until(
        f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures/gpu-0",
        lambda feature: feature is None,
    )
    assert found.PCI in found.labels(cluster.client.get(path))
    for item in after_delete(VALUES, "gpu-operator", NAMESPACE):
        cluster.create(item)
    cluster.until(
        f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{NFD}-prune",
        lambda job: ((job or {}).get("status") or {}).get("succeeded") == 1,
    )
    node = cluster.client.get(path)
    assert not [name for name in found.labels(node) if name.startswith(node_features.PREFIX)]
    assert not [name for name in node["metadata"]["annotations"] if name.startswith("nfd.")]
