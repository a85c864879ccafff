"""A device plugin without a process: it answers for the devices of NVIDIA's plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slicewright.rehearsal.cluster.kubelet.deviceplugin import messages
from slicewright.rehearsal.cluster.node.bottlerocket import DEVICES

DeviceList = Literal["envvar", "cdi", "volume-mounts"]
"""How the plugin tells the container runtime the devices: its DEVICE_LIST_STRATEGY."""
_CDI = "k8s.device-plugin.nvidia.com/gpu="


def device_list(strategy: str) -> DeviceList:
    """The answer to DEVICE_LIST_STRATEGY. Of several strategies, whose answers the real plugin
    gives together, it is the one that NVIDIA's runtime prefers.
    """
    strategies = {name.strip() for name in strategy.split(",")}
    if strategies & {"cdi-cri", "cdi-annotations"}:
        return "cdi"
    return "volume-mounts" if "volume-mounts" in strategies else "envvar"


@dataclass(eq=False)
class SimulatedPlugin:
    """One resource of it, as DevicePlugins keeps those that register."""

    resource: str
    listed: DeviceList
    preferred: bool = False
    task: asyncio.Task[None] | None = None

    async def call(self, method: str, request: Any, response: Any) -> Any:
        """Only Allocate; the other methods are not called without a `preferred`.

        A replica's id is its device's, `::` and a number. Source: NVIDIA/k8s-device-plugin v0.19.0,
        internal/plugin/server.go.
        """
        assert method == "Allocate", method
        answers = []
        for container in request.container_requests:
            ids = sorted({one.split("::")[0] for one in container.devices_ids})
            answers.append(self._answer(ids))
        return response(container_responses=answers)

    def _answer(self, ids: Sequence[str]) -> Any:
        match self.listed:
            case "cdi":
                devices = [messages.CDIDevice(name=f"{_CDI}{one}") for one in ids]
                return messages.ContainerAllocateResponse(cdi_devices=devices)
            case "volume-mounts":
                mounts = [
                    messages.Mount(host_path="/dev/null", container_path=f"{DEVICES}/{one}")
                    for one in ids
                ]
                envs = {"NVIDIA_VISIBLE_DEVICES": DEVICES}
                return messages.ContainerAllocateResponse(envs=envs, mounts=mounts)
            case "envvar":
                envs = {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)}
                return messages.ContainerAllocateResponse(envs=envs)
