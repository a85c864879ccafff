"""The formats of Volcano's vGPU device plugin.

Sources: volcano-sh/volcano v1.15.1, pkg/scheduler/api/devices/nvidia/vgpu;
Project-HAMi/volcano-vgpu-device-plugin, pkg/plugin/register.go and pkg/plugin/vgpu/util/util.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.vgpu.cards import Card, Share, Sharing
from slicewright.rehearsal.cluster.vgpu.engine import Devices, Engine, Keys

REGISTER: Final = "volcano.sh/node-vgpu-register"
ALLOCATED: Final = "volcano.sh/vgpu-ids-new"
NUMBER: Final = "volcano.sh/vgpu-number"
MEMORY: Final = "volcano.sh/vgpu-memory"
CORES: Final = "volcano.sh/vgpu-cores"
_TYPE: Final = "NVIDIA"
_MODE: Final = "hami-core"


def _devices(cards: Sequence[Card], sharing: Sharing) -> Mapping[str, Devices]:
    """One device for each share, each unit of memory, and each percent of compute."""
    return {
        NUMBER: _list_devices(cards, [sharing.shares_per_card] * len(cards)),
        MEMORY: _list_devices(cards, [sharing.memory_units(card) for card in cards]),
        CORES: _list_devices(cards, [sharing.compute_percent] * len(cards)),
    }


def _list_devices(cards: Sequence[Card], counts: Sequence[int]) -> Devices:
    return {
        f"{card.uuid}-{number}": card.healthy
        for card, count in zip(cards, counts, strict=True)
        for number in range(count)
    }


def _registration(cards: Sequence[Card], sharing: Sharing) -> Mapping[str, str]:
    registered = (
        ",".join(
            (
                card.uuid,
                str(sharing.shares_per_card),
                str(sharing.memory_units(card)),
                f"{_TYPE}-{card.model}",
                str(card.healthy).lower(),
                _MODE,
            )
        )
        for card in cards
    )
    return {REGISTER: "".join(f"{card}:" for card in registered)}


def decode(text: str) -> list[list[Share]]:
    """Containers are separated by `;`, cards end with `:`."""
    return [
        [_share(card) for card in container.split(":") if "," in card]
        for container in text.split(";")
    ]


def _share(text: str) -> Share:
    uuid, _, memory, compute = text.split(",")[:4]
    return Share(uuid=uuid, memory_units=int(memory), compute_percent=int(compute))


def encode(containers: Sequence[Sequence[Share]]) -> str:
    return ";".join(
        "".join(f"{s.uuid},{_TYPE},{s.memory_units},{s.compute_percent}:" for s in container)
        for container in containers
    )


def read_sharing(config_map: JsonObject) -> Sharing:
    """Reads the settings of the plugin, whose file HAMi's plugin shares."""
    text = (config_map.get("data") or {}).get("device-config.yaml") or ""
    settings = (yaml.safe_load(text) or {}).get("nvidia") or {}
    return Sharing(
        shares_per_card=int(settings.get("deviceSplitCount") or 10),
        memory_factor=int(settings.get("gpuMemoryFactor") or 1),
        memory_scaling=float(settings.get("deviceMemoryScaling") or 1),
        compute_scaling=float(settings.get("deviceCoreScaling") or 1),
    )


VOLCANO: Final = Engine(
    name="volcano",
    keys=Keys(
        to_allocate="volcano.sh/devices-to-allocate",
        node="volcano.sh/vgpu-node",
        time="volcano.sh/vgpu-time",
        phase="volcano.sh/bind-phase",
    ),
    counting=NUMBER,
    devices=_devices,
    registration=_registration,
    decode=decode,
    encode=encode,
    sharing=read_sharing,
)
