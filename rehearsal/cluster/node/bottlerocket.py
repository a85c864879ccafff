"""What Bottlerocket does with a node's GPUs by itself, before any pod runs there. Pure.

nvidia-migmanager partitions them from the settings at every boot; then NVIDIA's device plugin runs
as a service of the host, with the strategy `single` wherever the settings partition. An A100
restarts once when its MIG mode changes: before the kubelet, which cannot show it; it is left out.

Sources: bottlerocket-os/bottlerocket-kernel-kit, sources/nvidia-migmanager; bottlerocket.dev,
settings.kubelet-device-plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from slicewright.rehearsal.cluster.node.operands import device_plugin
from slicewright.rehearsal.cluster.node.operands.sharing import Replicated
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.models import Model
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon

DEVICES: Final = "/var/run/nvidia-container-devices"
"""Where the runtime looks for mounts that name a container's devices."""
_MODELS: Final[Mapping[str, str]] = {
    "A100-40": "a100.40gb",
    "A100-80": "a100.80gb",
    "H100-80": "h100.80gb",
    "H200": "h200.141gb",
    "B200": "b200.180gb",
}
"""Key of a model -> nvidia-migmanager's name of it."""
_SHAPES: Final[Mapping[str, tuple[int, int]]] = {
    "7": (1, 1),
    "4": (1, 2),
    "3": (2, 2),
    "2": (3, 4),
    "1": (7, 8),
}
"""Partitions of a GPU, as the settings have it -> compute slices and memory slots of each."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """settings.kubelet-device-plugins.nvidia, as far as the simulation knows them."""

    partition: bool
    profiles: Mapping[str, str]
    """nvidia-migmanager's name of a GPU model -> a profile, or a number of partitions."""
    replicas: int | None
    """Of each device, by time-slicing."""
    rename: bool


def settings_of(written: Mapping[str, Any]) -> Settings:
    """written: with the names of the settings. Missing ones have Bottlerocket's defaults."""
    sliced = written.get("device-sharing-strategy") == "time-slicing"
    sharing = (written.get("time-slicing") or {}) if sliced else {}
    return Settings(
        partition=written.get("device-partitioning-strategy") == "mig",
        profiles=(written.get("mig") or {}).get("profile") or {},
        replicas=int(sharing.get("replicas") or 2) if sliced else None,
        rename=bool(sharing.get("rename-by-default", True)),
    )


def booted(node: NodeSilicon, settings: Settings) -> NodeSilicon:
    """The GPUs as nvidia-migmanager leaves them. A model that it does not know stays whole."""
    for gpu in node.gpus:
        if gpu.model.mig == "none":
            continue
        if settings.partition and gpu.model.key in _MODELS:
            asked = settings.profiles.get(_MODELS[gpu.model.key], "1")
            node = state.partitioned(node, gpu.index, _partitions(gpu.model, asked))
        else:
            off = replace(node.gpus[gpu.index], mig=False, mig_pending=False, instances=())
            node = state.with_gpu(node, off)
    return node


def _partitions(model: Model, asked: str) -> list[str]:
    """Of what it does not know it makes one instance of the whole GPU."""
    layouts = {}
    for number, (compute, slots) in _SHAPES.items():
        (name,) = (
            s.name
            for s in model.slices
            if (s.compute_slices, s.size) == (compute, slots) and "+" not in s.name
        )
        layouts[number] = layouts[name] = [name] * int(number)
    return layouts.get(asked, layouts["1"])


def offered(node: NodeSilicon, settings: Settings) -> Mapping[str, tuple[str, ...]]:
    """Device ids by resource, as the host's device plugin registers them."""
    name = f"{device_plugin.GPU}.shared" if settings.rename else device_plugin.GPU
    shared = (
        {
            device_plugin.GPU: Replicated(
                replicas=settings.replicas, advertised=name, is_renamed=settings.rename
            )
        }
        if settings.replicas
        else {}
    )
    strategy = "single" if settings.partition else "none"
    return device_plugin.devices(node, strategy, shared)
