"""Finds the profile of a MIG device by slices, memory and engines, not by its name alone."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations

from slicewright.node_agent.nvml.observed import GpuInstance, MigDevice, ObservedGpu, OfferedProfile

# A device's name on recent drivers: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "... MIG 1c.3g.40gb".
_NAMED = re.compile(r"\bMIG (?:(?P<c>\d+)c\.)?(?P<profile>(?P<g>\d+)g\.\d+gb(?:[+-][a-z0-9.,]+)?)$")
# An instance's memory differs from its profile's by the driver's reserve. The memory of
# neighbouring profiles differs by a factor of two.
_MEMORY_TOLERANCE = 0.15


def name_of(
    device: MigDevice, gpu: ObservedGpu, *, gpu_memory_mib: int | None = None
) -> str | None:
    """The profile in NVIDIA's spelling (`3g.40gb`, `1g.10gb+me`, `1c.3g.40gb`). None: not clear.

    gpu_memory_mib: total memory of the GPU, for drivers that report neither it nor profile names.
    """
    total = gpu.memory_mib or gpu_memory_mib
    whole = _gpu_instance_profile(device, gpu, total)
    if whole is None:
        return None
    return (
        whole if device.compute_slices == device.gpu_slices else f"{device.compute_slices}c.{whole}"
    )


def memory_gb(instance_mib: int, total_mib: int) -> int:
    """The memory in a profile's name: eighths of the GPU, with halves rounded up.

    round() would be wrong, as it rounds halves to even: 3g.70gb for the driver's 3g.71gb. Source:
    NVIDIA go-nvlib, pkg/nvlib/device/mig_profile.go.
    """
    eighths = math.ceil(instance_mib / total_mib * 8) / 8
    return math.floor(eighths * math.ceil(total_mib / 1024) + 0.5)


def needs_device_names(offered: Sequence[OfferedProfile]) -> bool:
    """True if `name_of` needs the names of devices: if profiles are equal in the other facts that
    it uses, or if the driver lists no profiles.
    """
    return not offered or any(
        first.slices == second.slices
        and _same_memory(first.memory_mib, second.memory_mib)
        and (first.engines.jpeg, first.engines.ofa) == (second.engines.jpeg, second.engines.ofa)
        for first, second in combinations(offered, 2)
    )


def _gpu_instance_profile(device: MigDevice, gpu: ObservedGpu, total_mib: int | None) -> str | None:
    alike = [
        p
        for p in gpu.offered
        if p.slices == device.gpu_slices and _same_memory(p.memory_mib, device.memory_mib)
    ]
    candidates = (
        _reported_profile(alike, device, gpu.gpu_instances)
        or [p for p in alike if p.engines == device.engines]
        # Some drivers report shared decoders and encoders differently. JPEG and OFA suffice to
        # recognise +me.
        or [
            p
            for p in alike
            if (p.engines.jpeg, p.engines.ofa) == (device.engines.jpeg, device.engines.ofa)
        ]
    )
    names = {name_of_profile(p, total_mib) for p in candidates}
    # Profiles with equal engines (1g.24gb and 1g.24gb+gfx) differ only in the driver's name of the
    # device. Without offered profiles that name decides, if it agrees with the slices.
    named = _NAMED.search(device.name)
    if (
        named
        and int(named["g"]) == device.gpu_slices
        and (named["profile"] in names or not gpu.offered)
    ):
        return named["profile"]
    if len(names) == 1:
        return names.pop()
    if not gpu.offered and total_mib:
        return f"{device.gpu_slices}g.{memory_gb(device.memory_mib, total_mib)}gb"
    return None


def _reported_profile(
    alike: Sequence[OfferedProfile], device: MigDevice, instances: Sequence[GpuInstance] | None
) -> list[OfferedProfile]:
    """The profile that the GPU instance reports, which needs privileges."""
    ids = {i.profile for i in instances or () if i.id == device.gpu_instance}
    return [p for p in alike if p.id in ids]


def name_of_profile(profile: OfferedProfile, total_mib: int | None) -> str | None:
    """NVIDIA's spelling, None if the driver reports neither the name nor the GPU's memory."""
    if profile.name:
        return profile.name
    return (
        f"{profile.slices}g.{memory_gb(profile.memory_mib, total_mib)}gb{profile.suffix}"
        if total_mib
        else None
    )


def _same_memory(a: int, b: int) -> bool:
    return abs(a - b) <= _MEMORY_TOLERANCE * max(a, b)
