"""The formats of HAMi: what its device plugin registers, and what its scheduler writes on pods.

Sources: Project-HAMi/HAMi v2.10.0, pkg/device/nvidia/device.go,
pkg/device-plugin/nvidiadevice/nvinternal/plugin/register.go and charts/hami.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.vgpu import volcano
from slicewright.rehearsal.cluster.vgpu.cards import Card, Share, Sharing
from slicewright.rehearsal.cluster.vgpu.engine import Devices, Engine, Keys

REGISTER: Final = "hami.io/node-nvidia-register"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
LOCK: Final = "hami.io/mutex.lock"
BOUND: Final = "hami.io/bind-time"
NUMBER: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
MEMORY_PERCENT: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"
PRIORITY: Final = "nvidia.com/priority"


def _devices(cards: Sequence[Card], sharing: Sharing) -> Mapping[str, Devices]:
    """Only cards are devices of the kubelet: the scheduler counts memory and compute itself."""
    return {
        NUMBER: {
            f"{card.uuid}-{number}": card.healthy
            for card in cards
            for number in range(sharing.shares_per_card)
        }
    }


def _registration(cards: Sequence[Card], sharing: Sharing) -> Mapping[str, str]:
    registered = [
        {
            "id": card.uuid,
            "index": card.index,
            "count": sharing.shares_per_card,
            "devmem": sharing.memory_units(card),
            "devcore": sharing.compute_percent,
            "type": card.model if card.model.startswith("NVIDIA") else f"NVIDIA-{card.model}",
            "numa": 0,
            "mode": "hami-core",
            "health": card.healthy,
        }
        for card in cards
    ]
    return {REGISTER: json.dumps(registered, separators=(",", ":"))}


def decode(text: str) -> list[list[Share]]:
    """As Volcano's, but that each container ends with `;`."""
    return volcano.decode(text.removesuffix(";")) if text else []


def encode(containers: Sequence[Sequence[Share]]) -> str:
    return "".join(f"{volcano.encode([container])};" for container in containers)


def _sharing(config_map: JsonObject) -> Sharing:
    """HAMi counts memory in MiB, whatever the factor is."""
    return replace(volcano.read_sharing(config_map), memory_factor=1)


HAMI: Final = Engine(
    name="hami",
    keys=Keys(
        to_allocate="hami.io/vgpu-devices-to-allocate",
        node="hami.io/vgpu-node",
        time="hami.io/vgpu-time",
        phase="hami.io/bind-phase",
    ),
    counting=NUMBER,
    devices=_devices,
    registration=_registration,
    decode=decode,
    encode=encode,
    sharing=_sharing,
    lock=LOCK,
)
