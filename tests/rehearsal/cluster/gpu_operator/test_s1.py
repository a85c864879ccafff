"""eks-a100 on two EKS nodes: NVIDIA's mig-manager, device plugin and GFD with the fake NVML. 25
s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rehearsal.cluster.gpu_operator.conftest import NAMESPACE

pytestmark = pytest.mark.long(
    "the same programs on the same nodes, in the whole run of eks-a100: "
    "tests/rehearsal/scenario/whole_run/test_eks_fleet.py"
)

MACHINE = {"cloud": "eks", "gpu_model": "A100-40", "gpu_count": 8, "driver_version": "580.95.05"}
FAULT = {"kind": "wrong-layout", "gpu": 3, "profile": "2g.10gb"}
SMALL = "nvidia.com/mig-1g.5gb"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"


@pytest.fixture(scope="module")
def nodes(cluster: Any) -> Iterator[dict[str, str]]:
    made = {
        "good": cluster.add_node("gpu-0", MACHINE),
        "faulty": cluster.add_node("gpu-1", {**MACHINE, "fault": FAULT}),
    }
    yield made
    for path in made.values():
        cluster.client.delete(path)


def label(node: dict[str, Any] | None, name: str) -> str | None:
    value: str | None = (
        ((node or {}).get("metadata") or {}).get("labels", {}).get(f"nvidia.com/{name}")
    )
    return value


def allocatable(node: dict[str, Any] | None, resource: str) -> str | None:
    value: str | None = ((node or {}).get("status") or {}).get("allocatable", {}).get(resource)
    return value


def offers(node: dict[str, Any] | None, amounts: dict[str, str]) -> bool:
    """Whether it has these amounts to allocate. A plugin registers its resources one by one."""
    return all(allocatable(node, resource) == amount for resource, amount in amounts.items())


def test_whole_gpus_are_registered_and_labelled_before_any_layout(
    cluster: Any, nodes: dict[str, str]
) -> None:
    for path in nodes.values():
        node = cluster.until(
            path, lambda n: n if label(n, "mig.config.state") == "success" and n else None
        )
        assert label(node, "mig.config") == "all-disabled"
        assert label(node, "gpu.deploy.mig-manager") == "true"
        assert label(node, "mig.capable") == "true"
        assert label(node, "gpu.product") == "NVIDIA-A100-SXM4-40GB"
        cluster.until(path, lambda n: allocatable(n, "nvidia.com/gpu") == "8")
    cluster.until(POLICY, lambda p: ((p or {}).get("status") or {}).get("state") == "ready")


def cuda_pods(cluster: Any) -> dict[str, tuple[str, str]]:
    """Node -> uid and phase of the pod by which the validator checks CUDA."""
    pods = cluster.client.get(
        f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="app=nvidia-cuda-validator"
    )["items"]
    found = {p["spec"]["nodeName"]: (p["metadata"]["uid"], p["status"]["phase"]) for p in pods}
    for one in pods:
        (owner,) = one["metadata"]["ownerReferences"]
        assert owner["kind"] == "ClusterPolicy", "the DaemonSet's controller would let go of it"
    assert len(found) == len(pods), "one per node"
    return found


def test_the_validators_cuda_pod_has_completed_on_each_node(
    cluster: Any, nodes: dict[str, str]
) -> None:
    found = cuda_pods(cluster)
    assert {node: phase for node, (_, phase) in found.items() if node in ("gpu-0", "gpu-1")} == {
        "gpu-0": "Succeeded",
        "gpu-1": "Succeeded",
    }


def test_the_label_partitions_every_gpu_after_a_reboot_and_the_plugin_registers_them(
    cluster: Any, nodes: dict[str, str]
) -> None:
    before = cluster.client.get(nodes["good"])["status"]["nodeInfo"]["bootID"]
    change = {
        "metadata": {
            "labels": {"nvidia.com/mig.config": "all-1g.5gb", "nvidia.com/mig.config.state": None}
        }
    }
    for path in nodes.values():
        cluster.client.patch(path, change)
    # An A100 takes its new MIG mode only at a reset, which clouds refuse: mig-manager asks for a
    # reboot.
    cluster.until(nodes["good"], lambda n: label(n, "mig.config.state") == "rebooting")
    cluster.until(nodes["good"], lambda n: label(n, "mig.config.state") == "success", 240)
    node = cluster.until(
        nodes["good"],
        lambda n: n if offers(n, {SMALL: "56", "nvidia.com/gpu": "0"}) and n else None,
    )
    assert node["status"]["capacity"][SMALL] == "56"
    assert node["status"]["nodeInfo"]["bootID"] != before
    cluster.until(
        nodes["good"],
        lambda n: (
            label(n, "mig-1g.5gb.count") == "56" and label(n, "gpu.deploy.device-plugin") == "true"
        ),
    )


def test_pods_get_partitions_until_none_is_left(cluster: Any, nodes: dict[str, str]) -> None:
    container = {"name": "c", "image": "busybox", "resources": {"limits": {SMALL: "1"}}}
    spec = {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": "gpu-0"}}
    template = {"metadata": {"labels": {"app": "w"}}, "spec": spec}
    cluster.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {
                "replicas": 60,
                "selector": {"matchLabels": {"app": "w"}},
                "template": template,
            },
        }
    )
    path = "/apis/apps/v1/namespaces/default/deployments/w"
    cluster.until(path, lambda d: ((d or {}).get("status") or {}).get("readyReplicas") == 56)

    def phases(_: object) -> list[str]:
        pods = cluster.client.get("/api/v1/namespaces/default/pods", labelSelector="app=w")["items"]
        return sorted(p["status"]["phase"] for p in pods)

    cluster.until(path, lambda d: phases(d) == ["Pending"] * 4 + ["Running"] * 56)

    def held(_: object) -> list[str]:
        pods = json.loads((cluster.directory / "nodes" / "gpu-0" / "devices.json").read_text())
        return [i for pod in pods.values() for c in pod.values() for i in c[SMALL]]

    # kwok says that a pod runs, also before the kubelet stand-in has allocated its devices.
    ids = cluster.until(path, lambda d: found if len(found := held(d)) >= 56 else None)
    assert len(set(ids)) == len(ids) == 56
    assert all(i.startswith("MIG-") for i in ids)
    cluster.client.delete(path)


def test_a_wrong_layout_after_mig_managers_success_is_simulated_and_repaired(
    cluster: Any, nodes: dict[str, str]
) -> None:
    cluster.until(
        nodes["faulty"],
        lambda n: (
            offers(n, {SMALL: "49", "nvidia.com/mig-2g.10gb": "1"})
            and label(n, "mig.config.state") == "success"
        ),
        240,
    )
    machine = {"rehearsal.slicewright.io/machine": json.dumps(MACHINE)}
    cluster.client.patch(nodes["faulty"], {"metadata": {"annotations": machine}})
    cluster.until(
        nodes["faulty"], lambda n: offers(n, {SMALL: "56", "nvidia.com/mig-2g.10gb": "0"}), 240
    )
