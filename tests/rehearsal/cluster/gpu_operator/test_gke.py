"""NVIDIA's operator beside GKE's own plugin: Google's driver installer, the toolkit, the labels.

With NVIDIA's own mig-manager, device plugin and GFD over a driver in a directory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import manifests, plan
from slicewright.infra.plan import GkeFleetPlan
from slicewright.rehearsal.clouds.gcp.gke import addons
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.gpu_operator.conftest import (
    LAYOUTS,
    NAMESPACE,
    VALUES,
    install_operator,
)
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster

FLEET = Path(__file__).parents[3] / "infra/golden/gke.yaml"
MACHINE = {
    "cloud": "gke",
    "gpu_model": "A100-40",
    "gpu_count": 1,
    "driver_version": "535.183.01",
    "gke_gpu_config": {"GPUPartitionSize": "", "GPUSharingConfig": None},
}
GPU = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}
OPERATED = {
    **GPU,
    "cloud.google.com/gke-os-distribution": "cos",
    "gke-no-default-nvidia-gpu-device-plugin": "true",
    "slicewright.io/pool": "cos",
}
NATIVE = {**GPU, "nvidia.com/gpu.deploy.operands": "false"}
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
SMALL = "nvidia.com/mig-1g.5gb"


@pytest.fixture(scope="module")
def gke(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    """A cluster with the operator as the product configures it for GKE, and GKE's plugin."""
    fleet = plan.read_file(FLEET)
    assert isinstance(fleet, GkeFleetPlan)
    ours = manifests.operator_values(fleet, manifests.operator_files(fleet))
    chosen = {
        **VALUES,
        "hostPaths": ours["hostPaths"],
        "toolkit": {k: ours["toolkit"][k] for k in ("enabled", "env", "installDir")},
    }
    with running_cluster(tmp_path_factory.mktemp("gke"), toolchain) as made:
        made.add_node("system")
        install_operator(made, chosen, LAYOUTS)
        made.create(addons.device_plugin())
        yield made


@pytest.fixture(scope="module")
def installer() -> dict[str, Any]:
    """The product's DaemonSet for Container-Optimized OS, with the image of no mirror."""
    fleet = plan.read_file(FLEET)
    assert isinstance(fleet, GkeFleetPlan)
    manifest = manifests.driver_installers(fleet)[0]
    pod = manifest["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    del pod["imagePullSecrets"]
    return manifest


@pytest.fixture(scope="module")
def nodes(gke: Any) -> dict[str, str]:
    return {
        "operated": gke.add_node("operated", {**MACHINE, "driver_by_installer": True}, OPERATED),
        "native": gke.add_node("native", MACHINE, NATIVE),
        "both": gke.add_node("both", MACHINE, GPU),
    }


def allocatable(node: dict[str, Any] | None) -> dict[str, str]:
    found = ((node or {}).get("status") or {}).get("allocatable") or {}
    return {k: v for k, v in found.items() if k.startswith("nvidia.com/") and v != "0"}


def labels(node: dict[str, Any] | None) -> dict[str, str]:
    found: dict[str, str] = ((node or {}).get("metadata") or {}).get("labels") or {}
    return found


def pods_on(cluster: Any, node: str) -> set[str]:
    """The DaemonSets of the node's pods; the validator's CUDA pod has none."""
    found = cluster.client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    owners = [owner for p in found for owner in p["metadata"].get("ownerReferences") or ()]
    return {owner["name"] for owner in owners if owner["kind"] == "DaemonSet"}


def test_a_node_without_either_label_has_both_plugins(gke: Any, nodes: dict[str, str]) -> None:
    """They register the same resource: the later one wins."""
    gke.until(nodes["both"], lambda n: labels(n).get("nvidia.com/gpu.deploy.device-plugin"))
    gke.until(nodes["both"], lambda _: pods_on(gke, "both") >= {addons.NAME, PLUGIN})


PLUGIN = "nvidia-device-plugin-daemonset"


def test_without_its_label_for_the_operator_a_native_node_has_gkes_plugin_only(
    gke: Any, nodes: dict[str, str]
) -> None:
    gke.until(nodes["native"], lambda n: allocatable(n) == {"nvidia.com/gpu": "1"})
    found = gke.until(
        nodes["native"], lambda n: n if labels(n).get("nvidia.com/gpu.present") else 0
    )
    assert not [k for k in labels(found) if ".deploy." in k and k not in NATIVE]
    assert pods_on(gke, "native") == {addons.NAME, NFD_WORKER}


def test_no_operand_starts_before_googles_installer_has_run(
    gke: Any, nodes: dict[str, str], installer: dict[str, Any]
) -> None:
    gke.until(nodes["operated"], lambda _: TOOLKIT in pods_on(gke, "operated"))
    (pod,) = gke.client.get(
        f"/api/v1/namespaces/{NAMESPACE}/pods",
        labelSelector=f"app={TOOLKIT}",
        fieldSelector="spec.nodeName=operated",
    )["items"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"

    def waits(found: dict[str, Any] | None) -> bool:
        statuses = ((found or {}).get("status") or {}).get("initContainerStatuses") or ()
        return any("running" in s["state"] for s in statuses)

    gke.until(path, waits)
    assert allocatable(gke.client.get(nodes["operated"])) == {}
    gke.create(installer)
    gke.until(nodes["operated"], lambda n: allocatable(n) == {"nvidia.com/gpu": "1"}, 240)
    gke.says(
        path,
        lambda log: "IS_HOST_DRIVER=false" in log,
        container="nvidia-container-toolkit-ctr",
    )
    assert addons.NAME not in pods_on(gke, "operated")


NFD_WORKER = "gpu-operator-node-feature-discovery-worker"
TOOLKIT = "nvidia-container-toolkit-daemonset"


def test_the_label_partitions_the_gpu_after_a_reboot(gke: Any, nodes: dict[str, str]) -> None:
    """The reboot takes the driver and containerd's configuration, and both come again."""
    path = nodes["operated"]
    gke.until(path, lambda n: labels(n).get("nvidia.com/mig.config.state") == "success", 240)
    change = {"nvidia.com/mig.config": "all-1g.5gb", "nvidia.com/mig.config.state": None}
    gke.client.patch(path, {"metadata": {"labels": change}})
    gke.until(path, lambda n: labels(n).get("nvidia.com/mig.config.state") == "rebooting", 240)
    gke.until(path, lambda n: allocatable(n) == {SMALL: "7"}, 240)
    found = gke.until(path, lambda n: n if labels(n).get(f"{SMALL}.count") == "7" else None)
    assert labels(found)["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"


def test_a_toolkit_that_does_not_read_containerds_file_cuts_the_node_from_gkes_network(
    gke: Any, nodes: dict[str, str]
) -> None:
    gke.client.patch(POLICY, {"spec": {"toolkit": {"env": None}}})
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def configured(_: dict[str, Any] | None) -> bool:
        for pod in gke.client.get(pods, labelSelector=f"app={TOOLKIT}")["items"]:
            (main,) = pod["spec"]["containers"]
            old = "RUNTIME_CONFIG_SOURCE" in [e["name"] for e in main["env"]]
            if not old and pod["spec"].get("nodeName") == "operated":
                running = (pod["status"].get("containerStatuses") or [{}])[0].get("ready")
                return bool(running) and "wrote" in gke.log(f"{pods}/{pod['metadata']['name']}")
        return False

    gke.until(nodes["operated"], configured, 240)
    gke.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "late", "namespace": "default"},
            "spec": {"nodeName": "operated", "containers": [{"name": "c", "image": "python:3"}]},
        }
    )
    gke.until(
        "/api/v1/namespaces/default/pods/late",
        lambda _: any(
            'failed to find plugin "gke"' in e for e in gke.events("FailedCreatePodSandBox")
        ),
    )
