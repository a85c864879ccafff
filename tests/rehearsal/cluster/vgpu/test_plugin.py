"""The simulated device plugin with the kubelet's own side of the sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright.node_agent.nvml.observed import Failure, Observation, ObservedGpu
from slicewright.rehearsal.cluster.kubelet.deviceplugin.ledger import Ledger
from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import (
    AllocationFailed,
    DevicePlugins,
)
from slicewright.rehearsal.cluster.vgpu.cards import Sharing
from slicewright.rehearsal.cluster.vgpu.plugin import Plugin
from slicewright.rehearsal.cluster.vgpu.volcano import CORES, MEMORY, NUMBER, REGISTER, VOLCANO

LOST = Failure(call="nvmlDeviceGetMemoryInfo", code=15, text="GPU is lost")


class Api:
    """Pods and the annotations that the plugin writes, in place of an API server."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.node: dict[str, str] = {}

    def get(self, path: str, **query: str) -> dict[str, Any]:
        assert (path, query) == ("/api/v1/pods", {"fieldSelector": "spec.nodeName=n"})
        return {"items": self.pods}

    def patch(self, path: str, body: dict[str, Any]) -> None:
        annotations = body["metadata"]["annotations"]
        if path == "/api/v1/nodes/n":
            self.node |= annotations
            return
        (pod,) = (p for p in self.pods if path.endswith(f"/pods/{p['metadata']['name']}"))
        pod["metadata"]["annotations"] |= annotations

    def place(self, name: str, devices: str) -> None:
        keys = VOLCANO.keys
        annotations = {
            keys.to_allocate: devices,
            keys.node: "n",
            keys.time: str(len(self.pods)),
            keys.phase: "allocating",
        }
        metadata = {"name": name, "namespace": "d", "annotations": annotations}
        self.pods.append({"metadata": metadata, "status": {"phase": "Pending"}})


class Node:
    """A plugin and a kubelet's device manager. memory_mib: of each of two cards."""

    def __init__(self, directory: Path, memory_mib: int, sharing: Sharing) -> None:
        self.directory = directory
        self.ledger = Ledger()
        self.api = Api()
        self.memory_mib = memory_mib
        self.lost: set[int] = set()
        self.changes = asyncio.Event()
        client: Any = self.api
        self.plugin = Plugin(VOLCANO, "n", client, self.observe, sharing, directory)

    def observe(self) -> Observation:
        return Observation(
            gpus=tuple(
                ObservedGpu(
                    index=i,
                    uuid=f"GPU-00000000-0000-0000-0000-00000000000{i}",
                    model="Tesla T4",
                    memory_mib=self.memory_mib,
                    failure=LOST if i in self.lost else None,
                )
                for i in range(2)
            )
        )

    async def until(self, holds: Callable[[dict[str, int]], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds(self.ledger.allocatable()):
                await self.changes.wait()
                self.changes.clear()

    async def __aenter__(self) -> Node:
        self.kubelet = DevicePlugins(self.directory, self.ledger, self.changes.set, stopped_ttl_s=0)
        await self.kubelet.start()
        await asyncio.to_thread(self.plugin.start)
        await asyncio.to_thread(self.plugin.refresh)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.plugin.stop)
        await self.kubelet.stop()


def test_a_nodes_cards_are_divided_among_its_containers(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path, 16384, Sharing()) as node:
            wanted = {NUMBER: 20, MEMORY: 32768, CORES: 200}
            await node.until(lambda offered: offered == wanted)
            assert node.api.node[REGISTER].count("16384,NVIDIA-Tesla T4,true,hami-core:") == 2
            uuid = node.observe().uuids[1]
            node.api.place("a", f"{uuid},NVIDIA,6144,80:")
            got = await node.kubelet.allocate("a", "main", {NUMBER: 1, MEMORY: 6144, CORES: 80})
            assert got.env == {
                "NVIDIA_VISIBLE_DEVICES": uuid,
                "CUDA_DEVICE_MEMORY_LIMIT_0": "6144m",
                "CUDA_DEVICE_SM_LIMIT": "80",
            }
            assert node.api.pods[0]["metadata"]["annotations"][VOLCANO.keys.phase] == "success"
            with pytest.raises(AllocationFailed, match="cannot get valid pod"):
                await node.kubelet.allocate("b", "main", {NUMBER: 1})

    asyncio.run(run())


def test_the_kubelet_drops_a_list_of_memory_that_is_too_long(tmp_path: Path) -> None:
    """So the plan's memory factor is needed: see infra/plan/fractional/engines.py."""

    async def run() -> None:
        async with Node(tmp_path / "long", 40960, Sharing()) as node:
            await node.until(lambda offered: offered.get(NUMBER) == 20 and CORES in offered)
            await asyncio.sleep(0.5)
            assert not node.ledger.allocatable().get(MEMORY)
        async with Node(tmp_path / "short", 40960, Sharing(memory_factor=2)) as node:
            await node.until(lambda offered: offered.get(MEMORY) == 40960)

    for name in ("long", "short"):
        (tmp_path / name).mkdir()
    asyncio.run(run())


def test_a_lost_card_is_taken_out_and_another_kubelet_is_registered_with(tmp_path: Path) -> None:
    async def run() -> None:
        async with Node(tmp_path, 16384, Sharing()) as node:
            await node.until(lambda offered: offered.get(CORES) == 200)
            node.lost.add(0)
            await asyncio.to_thread(node.plugin.refresh)
            await node.until(lambda offered: offered == {NUMBER: 10, MEMORY: 16384, CORES: 100})
            assert node.api.node[REGISTER].count(",false,") == 1
            await node.kubelet.stop()
            node.ledger.restart()
            node.kubelet = DevicePlugins(tmp_path, node.ledger, node.changes.set)
            await node.kubelet.start()
            await asyncio.to_thread(node.plugin.start)
            await node.until(lambda offered: offered.get(CORES) == 100)

    asyncio.run(run())
