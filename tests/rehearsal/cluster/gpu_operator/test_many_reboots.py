"""Twenty reboots in a row of one A100 node, which loses its instances with each.

Not of an H100: it loses MIG mode too, and at each change of the mode mig-manager sleeps 30 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.host import processes

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

MACHINE = {"cloud": "eks", "gpu_model": "A100-40", "gpu_count": 2, "driver_version": "580.95.05"}
PARTITION = "nvidia.com/mig-1g.5gb"
REBOOTS, WARM_UP = 20, 3
MEMORY_MIB = 8
"""How much the kubelet stand-in may grow in the reboots after the warm-up: half a MiB each."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What reboots might leave behind."""

    descriptors: int
    threads: int
    children: int
    mounts: int
    files: int
    memory_mib: float


def footprint(cluster: Any) -> Footprint:
    """Of the kubelet stand-in, with the files of its nodes and pods."""
    kubelet = processes.find(cluster.environment, f"kubelet-{cluster.name}")
    assert kubelet is not None
    process = Path("/proc", str(kubelet.pid))
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    children = [
        entry
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _parent(entry) == kubelet.pid
    ]
    return Footprint(
        descriptors=len(list((process / "fd").iterdir())),
        threads=int(status["Threads"]),
        children=len(children),
        mounts=len((process / "mountinfo").read_text().splitlines()),
        files=sum(1 for _ in (cluster.directory / "nodes").rglob("*")),
        memory_mib=int(status["VmRSS"].split()[0]) / 1024,
    )


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _labels(node: dict[str, Any]) -> dict[str, str]:
    return dict(node["metadata"]["labels"])


def _partitioned(node: dict[str, Any] | None, not_boot: str) -> dict[str, Any] | None:
    if node is None or node["status"]["nodeInfo"]["bootID"] == not_boot:
        return None
    labels, allocatable = _labels(node), node["status"]["allocatable"]
    done = labels.get("nvidia.com/mig.config.state") == "success"
    plugin = labels.get("nvidia.com/gpu.deploy.device-plugin") == "true"
    # A plugin that first started after the partitioning never registered whole GPUs.
    offered = (allocatable.get(PARTITION), allocatable.get("nvidia.com/gpu", "0"))
    return node if done and plugin and offered == ("14", "0") else None


def _all_run(cluster: Any, node: str) -> bool:
    pods = cluster.client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    return all(
        status["ready"] for pod in pods for status in pod["status"].get("containerStatuses") or ()
    )


def test_twenty_reboots_leave_nothing_behind(cluster: Any) -> None:
    path = cluster.add_node("often", MACHINE)
    cluster.until(path, lambda n: n and _labels(n).get("nvidia.com/mig.config.state") == "success")
    layout = {"nvidia.com/mig.config": "all-1g.5gb", "nvidia.com/mig.config.state": None}
    cluster.client.patch(path, {"metadata": {"labels": layout}})
    node = cluster.until(path, lambda n: _partitioned(n, ""))
    after: list[Footprint] = []
    for _ in range(REBOOTS):
        boot = node["status"]["nodeInfo"]["bootID"]
        reboots.request(NodeFiles(cluster.directory / "nodes" / "often").root)
        node = cluster.until(path, lambda n, boot=boot: _partitioned(n, boot), 240)
        cluster.until(path, lambda _: _all_run(cluster, "often"), 240)
        after.append(footprint(cluster))
    first, last = after[WARM_UP - 1], after[-1]
    assert last.children == first.children
    assert last.mounts == first.mounts
    assert last.threads <= max(f.threads for f in after[:WARM_UP]) + 1, after
    assert last.descriptors <= max(f.descriptors for f in after[:WARM_UP]) + 4, after
    assert last.files <= max(f.files for f in after[:WARM_UP]) + 20, after
    assert last.memory_mib <= first.memory_mib + MEMORY_MIB, after
    cluster.client.delete(path)
