"""NVIDIA's operands, and the agent's way of looking, in containers with the device nodes of their
creation.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis import desired_state as desired_file
from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.infra import delivery
from slicewright.rehearsal.cluster.silicon import device_nodes, state
from tests.rehearsal.cluster.gpu_operator.conftest import NAMESPACE
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with

pytestmark = pytest.mark.long(
    "what the agent makes of such a container: tests/node_agent/test_situations.py"
)
MACHINE = {"cloud": "eks", "gpu_model": "H100-80", "gpu_count": 2, "driver_version": "580.159.03"}
HALVES = "nvidia.com/mig-3g.40gb"
OPERANDS = {
    "nvidia-device-plugin-daemonset": "nvidia-device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia-mig-manager": "nvidia-mig-manager",
}
"""The DaemonSet, and the name of the program that its containers run."""
LOOK = """
import os, subprocess, sys, time
argv = [sys.executable, "-S", sys.argv[1], "verify", "--desired", "/code/desired.json"]
while True:
    seen = subprocess.run([*argv, "--silicon-only"], capture_output=True, text=True)
    print(seen.returncode, (seen.stdout + seen.stderr).replace("\\n", " "), flush=True)
    time.sleep(0.5)
"""


@pytest.fixture(scope="module")
def node(cluster: Any) -> Iterator[str]:
    """With whole GPUs, advertised."""
    path = cluster.add_node("gpu-nodes", MACHINE)
    cluster.until(path, lambda n: _allocatable(n) == {"nvidia.com/gpu": "2"})
    yield path
    cluster.client.delete(path)


@pytest.fixture(scope="module")
def before(cluster: Any, node: str) -> dict[str, Any]:
    """What there is on the node before its GPUs are partitioned."""
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "look", "namespace": "default"},
            "data": {"look.py": LOOK, "desired.json": _desired()},
            "binaryData": {"agent.pyz": delivery.node_agent().base64},
        }
    )
    look_in_a_new_pod(cluster, "old-agent")
    assert "1 " in _last_line(cluster, "old-agent")
    return {name: operand(cluster, name) for name in OPERANDS}


@pytest.fixture(scope="module")
def partitioned(cluster: Any, node: str, before: dict[str, Any]) -> str:
    labels = {"nvidia.com/mig.config": "all-3g.40gb", "nvidia.com/mig.config.state": None}
    cluster.client.patch(node, {"metadata": {"labels": labels}})
    cluster.until(node, lambda n: _allocatable(n) == {HALVES: "4"}, 240)
    return node


def look_in_a_new_pod(cluster: Any, name: str) -> None:
    """A pod with the agent's rights and runtime that looks at the GPUs every half second, and
    never renews its container.
    """
    container = {
        "name": "main",
        "image": "python:3.13-slim",
        "command": ["python", "/code/look.py", "/code/agent.pyz"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    spec = {
        "containers": [container],
        "runtimeClassName": "nvidia",
        "nodeSelector": {"kubernetes.io/hostname": "gpu-nodes"},
        "securityContext": {"runAsUser": 65532, "runAsGroup": 65532},
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "code", "configMap": {"name": "look"}}],
    }
    metadata = {"name": name, "namespace": "default"}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    cluster.ready(f"/api/v1/namespaces/default/pods/{name}")


def operand(cluster: Any, name: str) -> tuple[int, frozenset[str], bool]:
    """Of the operand's process on the node: pid, GPU device nodes, and whether NVML asks them."""
    deadline = time.monotonic() + 180
    while True:
        pods = cluster.client.get(
            f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app={name}"
        )["items"]
        for pod in pods:
            if pod["spec"].get("nodeName") != "gpu-nodes" or "deletionTimestamp" in pod["metadata"]:
                continue
            for pid in pids_with(f"HOSTNAME={pod['metadata']['name']}"):
                process = Path("/proc") / str(pid)
                with suppress(OSError):  # it may end meanwhile
                    program = (process / "cmdline").read_text().split("\0")[0]
                    if Path(program).name == OPERANDS[name]:
                        variables = (process / "environ").read_text().split("\0")
                        return pid, _nodes(process / "root/dev"), f"{_DEV}=/dev" in variables
        assert time.monotonic() < deadline, f"{name} runs nowhere"
        time.sleep(0.2)


_DEV = device_nodes.VARIABLE


def _nodes(dev: Path) -> frozenset[str]:
    found = [*dev.glob("nvidia*"), *dev.glob("nvidia-caps/*")]
    return frozenset(str(p.relative_to(dev)) for p in found if p.is_file())


def _allocatable(node: dict[str, Any] | None) -> dict[str, str]:
    found = ((node or {}).get("status") or {}).get("allocatable") or {}
    return {k: v for k, v in found.items() if k.startswith("nvidia.com/") and v != "0"}


def _desired() -> str:
    return desired_file.dump(
        Desired(
            pool="halves",
            partitioner="mig-manager",
            gpu_count=2,
            gpu_models=("NVIDIA H100 80GB HBM3",),
            gpus=(DesiredGpu(index="all", mig=True, instances={"3g.40gb": 2}),),
            resources={},
        )
    )


def _last_line(cluster: Any, name: str) -> str:
    """Of what the pod sees from now on."""
    path = f"/api/v1/namespaces/default/pods/{name}"
    seen = len(cluster.log(path).splitlines())
    deadline = time.monotonic() + 180
    # One look may be under way; the second from now has begun later.
    while len(lines := cluster.log(path).splitlines()) < seen + 2:
        assert time.monotonic() < deadline, f"{name} looks no more"
        time.sleep(0.2)
    return str(lines[-1])


def _silicon(cluster: Any) -> state.NodeSilicon:
    return state.load(cluster.directory / "nodes" / "gpu-nodes" / "silicon" / "state")


def test_nvidias_operands_have_the_device_nodes_of_before_the_partitioning(
    before: dict[str, Any],
) -> None:
    whole = {"nvidia0", "nvidia1", "nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2"}
    for name, (_, nodes, asked) in before.items():
        assert (nodes, asked) == (whole | device_nodes.CONTROL, True), name


def test_mig_manager_restarts_those_that_must_see_the_partitions_and_they_do(
    cluster: Any, partitioned: str, before: dict[str, Any]
) -> None:
    for name in ("nvidia-device-plugin-daemonset", "gpu-feature-discovery"):
        pid, nodes, asked = operand(cluster, name)
        assert pid != before[name][0], name
        assert (nodes, asked) == (device_nodes.existing(_silicon(cluster)), True), name


def test_mig_manager_itself_lives_on_and_has_the_nodes_that_it_made(
    cluster: Any, partitioned: str, before: dict[str, Any]
) -> None:
    pid, nodes, _ = operand(cluster, "nvidia-mig-manager")
    assert pid == before["nvidia-mig-manager"][0]
    assert nodes == device_nodes.existing(_silicon(cluster))


def test_an_agent_that_keeps_its_container_finds_a_partitioned_node_not_partitioned(
    cluster: Any, partitioned: str
) -> None:
    """So the whole runs could not succeed with it."""
    old = _last_line(cluster, "old-agent")
    assert old.startswith("1 "), old
    assert "MIG on without any partition" in old
    look_in_a_new_pod(cluster, "new-agent")
    assert _last_line(cluster, "new-agent").startswith("0 ")
    kept = cluster.client.get("/api/v1/namespaces/default/pods/old-agent")
    assert kept["status"]["containerStatuses"][0]["restartCount"] == 0
