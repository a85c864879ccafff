"""The profile of a MIG device, told by what it is: slices, memory and engines, not by its name
alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from node_agent.nvml.observed import GpuInstance, MigDevice, ObservedGpu, OfferedProfile

# A device's name on recent drivers: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "... MIG 1c.3g.40gb".
_NAMED = re.compile(r"\bMIG (?:(?P<c>\d+)c\.)?(?P<profile>(?P<g>\d+)g\.\d+gb(?:[+-][a-z0-9.,]+)?)$")
# An instance's memory and its profile's differ by what the driver keeps for itself; neighbours
# differ by a factor of two.
_MEMORY_TOLERANCE = 0.15


def name_of(
    device: MigDevice, gpu: ObservedGpu, *, gpu_memory_mib: int | None = None
) -> str | None:
    """The profile in NVIDIA's spelling (`3g.40gb`, `1g.10gb+me`, `1c.3g.40gb`), or None where more
    than one could be meant.

    gpu_memory_mib: total memory of the GPU, where the driver neither names its profiles nor tells
    the total.
    """
    total = gpu.memory_mib or gpu_memory_mib
    whole = _gpu_instance_profile(device, gpu, total)
    if whole is None:
        return None
    return (
        whole if device.compute_slices == device.gpu_slices else f"{device.compute_slices}c.{whole}"
    )


def memory_gb(instance_mib: int, total_mib: int) -> int:
    """The memory figure of a profile's name, as NVIDIA's own tools compute it: eighths of the GPU,
    halves rounded up.

    Not round(): it takes halves to even and gives 3g.70gb where the driver says 3g.71gb. Source:
    nvidia.md 3.1, go-nvlib.
    """
    eighths = math.ceil(instance_mib / total_mib * 8) / 8
    return math.floor(eighths * math.ceil(total_mib / 1024) + 0.5)


def _gpu_instance_profile(device: MigDevice, gpu: ObservedGpu, total_mib: int | None) -> str | None:
    alike = [
        p
        for p in gpu.offered
        if p.slices == device.gpu_slices and _same_memory(p.memory_mib, device.memory_mib)
    ]
    candidates = (
        _of_instance(alike, device, gpu.gpu_instances)
        or [p for p in alike if p.engines == device.engines]
        # Shared decoder and encoder counts are reported differently by some drivers; JPEG and OFA
        # tell +me from plain.
        or [
            p
            for p in alike
            if (p.engines.jpeg, p.engines.ofa) == (device.engines.jpeg, device.engines.ofa)
        ]
    )
    names = {name_of_profile(p, total_mib) for p in candidates}
    # Profiles with equal engines (1g.24gb and 1g.24gb+gfx) are told apart by the driver's word
    # only. Without any offered profile the word stands alone, but it must agree with the slices.
    said = _NAMED.search(device.name)
    if (
        said
        and int(said["g"]) == device.gpu_slices
        and (said["profile"] in names or not gpu.offered)
    ):
        return said["profile"]
    if len(names) == 1:
        return names.pop()
    if not gpu.offered and total_mib:
        return f"{device.gpu_slices}g.{memory_gb(device.memory_mib, total_mib)}gb"
    return None


def _of_instance(
    alike: Sequence[OfferedProfile], device: MigDevice, instances: Sequence[GpuInstance] | None
) -> list[OfferedProfile]:
    """With privileges the instance itself says which profile it was made from."""
    ids = {i.profile for i in instances or () if i.id == device.gpu_instance}
    return [p for p in alike if p.id in ids]


def name_of_profile(profile: OfferedProfile, total_mib: int | None) -> str | None:
    """NVIDIA's spelling; None where the driver tells neither the name nor the size of the GPU."""
    if profile.name:
        return profile.name
    return (
        f"{profile.slices}g.{memory_gb(profile.memory_mib, total_mib)}gb{profile.suffix}"
        if total_mib
        else None
    )


def _same_memory(a: int, b: int) -> bool:
    return abs(a - b) <= _MEMORY_TOLERANCE * max(a, b)
