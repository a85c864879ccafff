"""A device plugin without a process: it answers for the devices of NVIDIA's plugin."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from rehearsal.cluster.kubelet.deviceplugin import messages

_CDI = "k8s.device-plugin.nvidia.com/gpu="


@dataclass(eq=False)
class SimulatedPlugin:
    """One resource of it, as DevicePlugins keeps those that register."""

    resource: str
    by_cdi: bool
    """Whether DEVICE_LIST_STRATEGY is a CDI strategy; else devices are named in the environment."""
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
            if self.by_cdi:
                devices = [messages.CDIDevice(name=f"{_CDI}{one}") for one in ids]
                answers.append(messages.ContainerAllocateResponse(cdi_devices=devices))
            else:
                envs = {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)}
                answers.append(messages.ContainerAllocateResponse(envs=envs))
        return response(container_responses=answers)
