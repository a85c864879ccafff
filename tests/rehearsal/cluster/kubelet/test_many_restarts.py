"""The agent's container, killed 200 times and created anew by the kubelet stand-in each time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import delivery
from slicewright.rehearsal.cluster.silicon import device_nodes, state
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.kubelet.simulated_cluster import SimulatedCluster, running_cluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

MACHINE = {"cloud": "eks", "gpu_model": "H100-80", "gpu_count": 2, "driver_version": "580.159.03"}
RESTARTS, WARM_UP = 200, 20
MEMORY_MIB = 4
"""How much the kubelet stand-in may grow in the restarts after the warm-up: 23 KiB each."""
_PRIVILEGED = {"nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2"}
"""Of `config` and `monitor`, which an unprivileged container need not have."""
POD = "/api/v1/namespaces/default/pods/agent"


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[SimulatedCluster]:
    """Its kubelet's back-off ends at 50 ms instead of 5 minutes."""
    period = ("--max-container-restart-period", "0.05")
    with running_cluster(tmp_path_factory.mktemp("restarts"), toolchain, *period) as made:
        yield made


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What restarts might leave behind."""

    processes: int
    """Of the container."""
    descriptors: int
    threads: int
    children: int
    mounts: int
    files: int
    memory_mib: float


def test_two_hundred_restarts_of_the_agents_container_leave_nothing_behind(
    cluster: SimulatedCluster,
) -> None:
    node = cluster.add_node("gpus", MACHINE)
    silicon = cluster.directory / "nodes" / "gpus" / "silicon" / "state"
    cluster.until(node, lambda n: n and _is_ready(n) and silicon.exists())
    for index in range(2):
        state.repartition(silicon, index, ["1g.10gb"] * 7)
    _create_agent(cluster)
    after: list[Footprint] = []
    for restart in range(RESTARTS):
        pod = cluster.until(POD, lambda p, restart=restart: _runs(p, restart))
        (agent,) = _processes(pod, leaders=True)
        there = device_nodes.existing(state.load(silicon)) - _PRIVILEGED
        assert _nodes(Path("/proc", str(agent), "root/dev")) - _PRIVILEGED == there
        after.append(_footprint(cluster, pod))
        if restart % 20 == 0:
            # The first instance goes: its node is absent in the next container only. At once before
            # the end, because an agent that sees it ends by itself.
            count = 7 - (restart // 20) % 2
            state.repartition(silicon, 0, ["1g.10gb"] * count)
        os.kill(agent, signal.SIGKILL)
    cluster.until(POD, lambda p: _runs(p, RESTARTS))
    first, last = after[WARM_UP], after[-1]
    assert {f.processes for f in after} <= {1, 2, 3}, "agent, fork server and worker"
    assert (last.children, last.mounts) == (first.children, first.mounts), (first, last)
    assert last.threads <= max(f.threads for f in after[:WARM_UP]) + 1, (first, last)
    assert last.descriptors <= max(f.descriptors for f in after[:WARM_UP]) + 4, (first, last)
    assert last.files <= max(f.files for f in after[:WARM_UP]) + 20, (first, last)
    assert last.memory_mib <= first.memory_mib + MEMORY_MIB, (first, last)


def _create_agent(cluster: SimulatedCluster) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "code", "namespace": "default"},
            "binaryData": {"agent.pyz": delivery.node_agent().base64},
        }
    )
    watch = ["/code/agent.pyz", "watch", "--port", "9470", "all:1g.10gb*7"]
    container = {
        "name": "main",
        "image": "python:3.13-slim",
        "command": ["python", *watch],
        "env": [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    spec = {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": "gpus"},
        "securityContext": {"runAsUser": 65532, "runAsGroup": 65532},
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "code", "configMap": {"name": "code"}}],
    }
    metadata = {"name": "agent", "namespace": "default"}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _runs(pod: dict[str, Any] | None, restarts: int) -> dict[str, Any] | None:
    """The pod, when its container has been restarted so often and its process is there."""
    for status in ((pod or {}).get("status") or {}).get("containerStatuses") or ():
        if status["restartCount"] == restarts and "running" in status["state"]:
            assert pod is not None
            return pod if _processes(pod, leaders=True) else None
    return None


def _processes(pod: dict[str, Any], *, leaders: bool = False) -> list[int]:
    """The agent's, of this pod. leaders: without those that it forked."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            state_, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            python = b"/code/agent.pyz" in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if python and state_ != "Z" and b"HOSTNAME=agent" in variables:
            found[int(entry.name)] = int(parent)
    assert pod["metadata"]["name"] == "agent"
    return [pid for pid, parent in found.items() if not leaders or parent not in found]


def _nodes(directory: Path) -> frozenset[str]:
    return frozenset(
        str(path.relative_to(directory)) for path in directory.rglob("nvidia*") if not path.is_dir()
    )


def _footprint(cluster: SimulatedCluster, pod: dict[str, Any]) -> Footprint:
    """Of the kubelet stand-in, with the files of its nodes and pods."""
    kubelet = processes.find(cluster.environment, f"kubelet-{cluster.name}")
    assert kubelet is not None
    process = Path("/proc", str(kubelet.pid))
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    children = (process / "task" / str(kubelet.pid) / "children").read_text().split()
    return Footprint(
        processes=len(_processes(pod)),
        descriptors=len(list((process / "fd").iterdir())),
        threads=int(status["Threads"]),
        children=len(children),
        mounts=len((process / "mountinfo").read_text().splitlines()),
        files=sum(1 for _ in (cluster.directory / "nodes").rglob("*")),
        memory_mib=int(status["VmRSS"].split()[0]) / 1024,
    )
