"""A node with Bottlerocket: partitioned when it boots, its device plugin a service of the host."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.node.root import NodeFiles

MACHINE = {
    "cloud": "eks",
    "gpu_model": "A100-40",
    "gpu_count": 2,
    "driver_version": "580.159.03",
    "bottlerocket": {
        "device-partitioning-strategy": "mig",
        "mig": {"profile": {"a100.40gb": "2"}},
    },
}
COUNTS = """
import os, re, time
gpus = [name for name in os.listdir("/dev") if re.fullmatch("nvidia[0-9]+", name)]
caps = os.listdir("/dev/nvidia-caps") if os.path.isdir("/dev/nvidia-caps") else []
print(f"{len(gpus)} GPUs, {len(caps)} capabilities", flush=True)
time.sleep(10000)
"""
HERE = {"nodeSelector": {"kubernetes.io/hostname": "bottlerocket"}}
DEVICES = "/var/run/nvidia-container-devices"


@pytest.fixture(scope="module")
def node(cluster: Any) -> str:
    return str(cluster.add_node("bottlerocket", MACHINE))


def offers(node: dict[str, Any] | None, boot: str = "") -> bool:
    status = (node or {}).get("status") or {}
    if status.get("nodeInfo", {}).get("bootID") == boot:
        return False
    return bool((status.get("allocatable") or {}).get("nvidia.com/gpu") == "4")


def sees(cluster: Any, name: str, container: dict[str, Any], wanted: str, **spec: Any) -> None:
    path = cluster.run_python(
        name,
        COUNTS,
        container={"volumeMounts": [{"name": "code", "mountPath": "/code"}], **container},
        **HERE,
        **spec,
    )
    cluster.says(path, lambda log: log.strip() == wanted)
    cluster.client.delete(path)


def test_it_offers_its_partitions_as_gpus_and_a_pod_sees_the_one_it_asked_for(
    cluster: Any, node: str
) -> None:
    cluster.until(node, offers)
    asks = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    sees(cluster, "br-one", asks, "1 GPUs, 2 capabilities")


def test_all_gpus_are_asked_for_by_a_mount_and_not_by_the_variable(cluster: Any, node: str) -> None:
    cluster.until(node, offers)
    variable = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    sees(cluster, "br-variable", variable, "0 GPUs, 0 capabilities")
    mounted = {
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": DEVICES}],
        "volumeMounts": [
            {"name": "code", "mountPath": "/code"},
            {"name": "all", "mountPath": f"{DEVICES}/all"},
        ],
    }
    all_gpus = {"name": "all", "hostPath": {"path": "/dev/null", "type": "CharDevice"}}
    sees(cluster, "br-mount", mounted, "2 GPUs, 8 capabilities", volumes=[all_gpus])


def test_a_pod_s_own_variable_counts_more_than_the_plugin_s_and_brings_nothing(
    cluster: Any, node: str
) -> None:
    cluster.until(node, offers)
    script = "import os\nprint(os.environ['NVIDIA_VISIBLE_DEVICES'], flush=True)\n" + COUNTS
    for name, env, devices in (
        ("br-plugins-word", [], DEVICES),
        ("br-pods-word", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "all"),
    ):
        container = {
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "env": env,
            "volumeMounts": [{"name": "code", "mountPath": "/code"}],
        }
        path = cluster.run_python(name, script, container=container, **HERE)
        wanted = [devices, "1 GPUs, 2 capabilities"]
        cluster.says(path, lambda log, wanted=wanted: log.splitlines() == wanted)
        cluster.client.delete(path)


def test_it_partitions_again_when_it_reboots(cluster: Any, node: str) -> None:
    before = cluster.until(node, lambda found: found if offers(found) else None)
    boot = before["status"]["nodeInfo"]["bootID"]
    reboots.request(NodeFiles(cluster.directory / "nodes" / "bottlerocket").root)
    cluster.until(node, lambda found: offers(found, boot))
    sees(
        cluster,
        "br-again",
        {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
        "1 GPUs, 2 capabilities",
    )
