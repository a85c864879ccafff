"""MIG mode and the offered profiles of a GPU, for probing and for partitioning."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any

from slicewright.node_agent.nvml import binding
from slicewright.node_agent.nvml.binding import Handle, Nvml, plain
from slicewright.node_agent.nvml.buffers import MOST_INSTANCES
from slicewright.node_agent.nvml.observed import Engines, MigMode, OfferedProfile

# Keyed by the number under which the driver lists a GPU instance profile (nvml.h,
# NVML_GPU_INSTANCE_PROFILE_*).
_SUFFIXES = {
    7: "+me",
    8: "+me",
    10: "+gfx",
    11: "+gfx",
    12: "+gfx",
    13: "-me",
    14: "-me",
    15: "+me.all",
    16: "+me.all",
    17: "+gfx",
}


# Newer drivers may list more profiles than are named here. The loop ends at the first number that
# the driver refuses.
_MOST_PROFILES = 32


def read_mig_mode(nvml: Nvml, device: Handle) -> tuple[MigMode, MigMode]:
    """Current and pending MIG mode. Raises NvmlError."""
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    code = nvml.function("nvmlDeviceGetMigMode")(device, byref(current), byref(pending))
    if code in binding.ABSENT:  # a GPU without MIG, or a driver older than MIG
        return "unsupported", "unsupported"
    if code:
        raise nvml.error("nvmlDeviceGetMigMode", code)
    return (
        "enabled" if current.value else "disabled",
        "enabled" if pending.value else "disabled",
    )


def read_offered_profiles(nvml: Nvml, device: Handle) -> tuple[OfferedProfile, ...]:
    return list_profiles(nvml, device)[0]


def list_profiles(nvml: Nvml, device: Handle) -> tuple[tuple[OfferedProfile, ...], bool]:
    """The profiles, and whether the list is complete."""
    profiles: list[OfferedProfile] = []
    for number in range(_MOST_PROFILES):
        info, code = _profile_info(nvml, device, number)
        if code == binding.NOT_SUPPORTED:
            continue
        if code:
            # INVALID_ARGUMENT ends the list. After any other error it stays incomplete (old drivers
            # list profiles in MIG mode only): names then come from the attributes, or the profile
            # stays unknown.
            return tuple(profiles), code == binding.INVALID_ARGUMENT
        profiles.append(_offered_profile(info, number))
    return tuple(profiles), True


def _offered_profile(info: Any, number: int) -> OfferedProfile:
    name = plain(info.name).removeprefix("MIG ") if hasattr(info, "name") else ""
    return OfferedProfile(
        id=info.id,
        name=name or None,
        suffix=_SUFFIXES.get(number, ""),
        slices=info.sliceCount,
        memory_mib=info.memorySizeMB,
        multiprocessors=info.multiprocessorCount,
        most=info.instanceCount,
        engines=Engines(
            decoders=info.decoderCount,
            encoders=info.encoderCount,
            jpeg=info.jpegCount,
            ofa=info.ofaCount,
        ),
    )


def _profile_info(nvml: Nvml, device: Handle, number: int) -> tuple[Any, int]:
    """The profile and the code of the call."""
    info = binding.GpuInstanceProfileInfoV2()
    code = nvml.function("nvmlDeviceGetGpuInstanceProfileInfoV")(device, number, byref(info))
    if code in (binding.FUNCTION_NOT_FOUND, binding.ARGUMENT_VERSION_MISMATCH):
        info = binding.GpuInstanceProfileInfo()
        code = nvml.function("nvmlDeviceGetGpuInstanceProfileInfo")(device, number, byref(info))
    return info, code


def read_memory_slices(
    nvml: Nvml, device: Handle, offered: tuple[OfferedProfile, ...]
) -> int | None:
    """The end of the largest profile's last placement, None without privileges."""
    if not offered:
        return None
    largest = max(offered, key=lambda p: (p.slices, p.memory_mib))
    placements = (binding.Placement * MOST_INSTANCES)()
    count = ctypes.c_uint(MOST_INSTANCES)
    possible = nvml.function("nvmlDeviceGetGpuInstancePossiblePlacements_v2")
    if possible(device, largest.id, placements, byref(count)):
        return None
    return max((place.start + place.size for place in placements[: count.value]), default=None)
