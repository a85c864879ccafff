"""Nodes without a driver: NVIDIA's driver container brings it, and is upgraded pod by pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.rehearsal.cluster.gpu_operator.driver_manager import INITIAL_STATE, PAUSED
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.gpu_operator.conftest import (
    LAYOUTS,
    NAMESPACE,
    VALUES,
    install_operator,
)
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster

MACHINE = {"cloud": "byo", "gpu_model": "H100-80", "gpu_count": 2}
"""No driver and no toolkit in its image; on an H100 MIG needs no reboot."""
OLD, NEW = "580.95.05", "590.48.01"
SYSTEM = "amzn2023"
"""Of the nodes of this package's cluster."""
PARTITION = "nvidia.com/mig-3g.40gb"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WORKLOAD = "/apis/apps/v1/namespaces/default/deployments/w"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    with running_cluster(tmp_path_factory.mktemp("drivers"), toolchain) as made:
        made.add_node("system")
        driver = {"enabled": True, "version": OLD, "upgradePolicy": {"autoUpgrade": False}}
        install_operator(made, {**VALUES, "driver": driver, "toolkit": {"enabled": True}}, LAYOUTS)
        yield made


@pytest.fixture(scope="module")
def node(cluster: Any) -> str:
    return str(cluster.add_node("gpu-0", MACHINE))


def labels(node: dict[str, Any] | None) -> dict[str, str]:
    return dict(((node or {}).get("metadata") or {}).get("labels") or {})


def allocatable(node: dict[str, Any] | None, resource: str) -> str | None:
    offered: dict[str, str] = ((node or {}).get("status") or {}).get("allocatable", {})
    return offered.get(resource)


def driver_pod(cluster: Any) -> dict[str, Any]:
    (pod,) = cluster.client.get(PODS, labelSelector="app=nvidia-driver-daemonset")["items"]
    return dict(pod)


def driver_of(node: dict[str, Any] | None) -> str | None:
    return labels(node).get("nvidia.com/cuda.driver-version.full")


def test_the_operands_wait_for_the_container_and_then_offer_the_gpus(
    cluster: Any, node: str
) -> None:
    cluster.until(node, lambda n: allocatable(n, "nvidia.com/gpu") == "2", 240)
    cluster.until(node, lambda n: driver_of(n) == OLD)
    image = driver_pod(cluster)["spec"]["containers"][0]["image"]
    assert image == f"nvcr.io/nvidia/driver:{OLD}-{SYSTEM}"
    cluster.until(POLICY, lambda p: ((p or {}).get("status") or {}).get("state") == "ready")


@pytest.mark.long(
    "the container's first start: tests/rehearsal/cluster/gpu_operator/test_driver_container.py"
)
def test_another_version_waits_until_the_pod_is_deleted(cluster: Any, node: str) -> None:
    layout = {"metadata": {"labels": {"nvidia.com/mig.config": "all-3g.40gb"}}}
    cluster.client.patch(node, layout)
    cluster.until(node, lambda n: allocatable(n, PARTITION) == "4", 240)
    cluster.client.patch(POLICY, {"spec": {"driver": {"version": NEW}}})
    wanted = f"nvcr.io/nvidia/driver:{NEW}-{SYSTEM}"
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/nvidia-driver-daemonset"
    cluster.until(
        path,
        lambda d: (
            (d or {})["spec"]["template"]["spec"]["containers"][0]["image"] == wanted
            and d["status"].get("observedGeneration") == d["metadata"]["generation"]
        ),
    )
    assert driver_pod(cluster)["spec"]["containers"][0]["image"] != wanted
    assert driver_of(cluster.client.get(node)) == OLD


@pytest.mark.long(
    "the container's first start: tests/rehearsal/cluster/gpu_operator/test_driver_container.py"
)
def test_the_new_pod_evicts_what_has_gpus_loads_its_driver_and_the_partitions_come_again(
    cluster: Any, node: str
) -> None:
    container = {"name": "c", "image": "busybox", "resources": {"limits": {PARTITION: "1"}}}
    cluster.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "w"}},
                "template": {
                    "metadata": {"labels": {"app": "w"}},
                    "spec": {
                        "containers": [container],
                        "nodeSelector": {"kubernetes.io/hostname": "gpu-0"},
                    },
                },
            },
        }
    )
    cluster.until(WORKLOAD, lambda d: ((d or {}).get("status") or {}).get("readyReplicas") == 1)
    selected = {"labelSelector": "app=w"}
    (before,) = cluster.client.get("/api/v1/namespaces/default/pods", **selected)["items"]
    cluster.client.delete(f"{PODS}/{driver_pod(cluster)['metadata']['name']}")
    cluster.until(
        node, lambda n: labels(n).get("nvidia.com/gpu.deploy.device-plugin") == PAUSED, 240
    )
    cluster.until(node, lambda n: driver_of(n) == NEW, 240)
    cluster.until(node, lambda n: allocatable(n, PARTITION) == "4", 240)
    after = cluster.until(node, lambda n: n if PAUSED not in labels(n).values() and n else None)
    assert INITIAL_STATE not in (after["metadata"].get("annotations") or {})
    assert not after["spec"].get("unschedulable")
    cluster.until(WORKLOAD, lambda d: ((d or {}).get("status") or {}).get("readyReplicas") == 1)
    (again,) = cluster.client.get("/api/v1/namespaces/default/pods", **selected)["items"]
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
