"""The kubelet as a unit of its node, and what its stop does to a node of a real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from slicewright.rehearsal.cluster.kubelet.nodes.kubelet_service import KubeletService
from slicewright.rehearsal.cluster.node.root import NodeFiles
from tests.rehearsal.cluster.kubelet.test_reboots import first, ready
from tests.rehearsal.cluster.node.test_fake_dbus import Client

KUBELET = "kubelet.service"
ON_IT = {"nodeSelector": {"kubernetes.io/hostname": "stops"}}
COUNTS = """
import pathlib, time
for number in range(100000):
    pathlib.Path("/shared/count").write_text(str(number))
    time.sleep(0.1)
"""


class Node:
    """What happens to the node, in order."""

    def __init__(self, grace_s: float) -> None:
        self.events: list[str] = []
        self.service = KubeletService(
            silence=self._add("silent"),
            resume=self._add("resumed"),
            mark_down=self._mark_down,
            grace_s=grace_s,
        )

    def _add(self, event: str) -> Callable[[], Awaitable[None]]:
        async def add() -> None:
            self.events.append(event)

        return add

    async def _mark_down(self, down: bool) -> None:
        self.events.append("not ready" if down else "ready")

    async def until(self, event: str) -> None:
        async with asyncio.timeout(60):
            while event not in self.events:
                await asyncio.sleep(0.001)


def test_a_silent_kubelet_makes_its_node_not_ready_after_the_grace() -> None:
    async def stop_and_start() -> list[str]:
        node = Node(grace_s=0.01)
        await node.service.stop()
        await node.service.stop()
        await node.until("not ready")
        assert not node.service.runs.is_set()
        await node.service.start()
        await node.service.start()
        assert node.service.runs.is_set()
        return node.events

    assert asyncio.run(stop_and_start()) == ["silent", "not ready", "resumed", "ready"]


def test_a_short_stop_is_not_noticed() -> None:
    async def stop_and_start() -> list[str]:
        node = Node(grace_s=0.05)
        for _ in range(3):
            await node.service.stop()
            await asyncio.sleep(0.02)
            await node.service.start()
        await asyncio.sleep(0.1)
        return node.events

    assert asyncio.run(stop_and_start()) == ["silent", "resumed"] * 3


def test_a_reboot_starts_it() -> None:
    async def stop_and_boot() -> list[str]:
        node = Node(grace_s=0.01)
        assert not await node.service.boot()
        await node.service.stop()
        await node.until("not ready")
        assert await node.service.boot(), "whoever boots the node takes the mark away"
        assert node.service.runs.is_set()
        await node.service.start()
        return node.events

    assert asyncio.run(stop_and_boot()) == ["silent", "not ready"]


def _systemctl(files: NodeFiles, member: str) -> None:
    Client(files.system_bus).call(member, KUBELET, "replace")


def _count(cluster: Any, uid: str) -> int:
    (file,) = (cluster.directory / "nodes/stops/pods" / uid).rglob("count")
    return int(Path(file).read_text() or 0)


def test_while_it_is_stopped_pods_run_on_and_none_starts_or_goes(cluster: Any) -> None:
    node = cluster.add_node("stops")
    files = NodeFiles(cluster.directory / "nodes" / "stops")
    counting = cluster.run_python(
        "counts-on",
        COUNTS,
        container={
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"},
                {"name": "shared", "mountPath": "/shared"},
            ]
        },
        volumes=[{"name": "shared", "emptyDir": {}}],
        **ON_IT,
    )
    uid = cluster.ready(counting)["metadata"]["uid"]
    _systemctl(files, "StopUnit")
    cluster.until(node, lambda n: ready(n) == "Unknown")
    before = _count(cluster, uid)
    cluster.client.delete(counting)
    cluster.until(counting, lambda pod: pod and "deletionTimestamp" in pod["metadata"])
    late = cluster.run_python(
        "late-on",
        "import time; time.sleep(1000)",
        tolerations=[{"operator": "Exists"}],
        **ON_IT,
    )
    cluster.until(late, lambda pod: pod and pod["spec"].get("nodeName"))
    assert not (files.root / "var/lib/kubelet/device-plugins/kubelet.sock").exists()
    _until(lambda: _count(cluster, uid) > before + 10)
    cluster.client.get(counting)  # it is still there
    assert first(cluster.client.get(late)).get("started") is not True
    _systemctl(files, "StartUnit")
    cluster.until(node, lambda n: ready(n) == "True")
    cluster.gone(counting)
    cluster.ready(late)
    assert (files.root / "var/lib/kubelet/device-plugins/kubelet.sock").exists()


def _until(holds: Callable[[], bool]) -> None:
    async def wait() -> None:
        async with asyncio.timeout(180):
            while not holds():
                await asyncio.sleep(0.05)

    asyncio.run(wait())
