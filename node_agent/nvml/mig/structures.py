"""Turns the driver's structures about MIG into observations."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from slicewright.node_agent.nvml import binding
from slicewright.node_agent.nvml.binding import plain
from slicewright.node_agent.nvml.observed import Engines, GpuInstance, MigDevice


# Cached: equal facts give the same object, and creating 112 of them takes a third of a look.
@lru_cache(maxsize=512)
def mig_device(
    uuid: bytes,
    raw_attributes: bytes,
    gpu_instance: int,
    compute_instance: int,
    name: bytes,
    memory_used_mib: int | None = None,
    processes: tuple[int, ...] | None = None,
) -> MigDevice:
    attributes = binding.DeviceAttributes.from_buffer_copy(raw_attributes)
    return MigDevice(
        uuid=plain(uuid),
        gpu_instance=gpu_instance,
        compute_instance=compute_instance,
        gpu_slices=attributes.gpuInstanceSliceCount,
        compute_slices=attributes.computeInstanceSliceCount,
        memory_mib=attributes.memorySizeMB,
        multiprocessors=attributes.multiprocessorCount,
        engines=Engines(
            decoders=attributes.sharedDecoderCount,
            encoders=attributes.sharedEncoderCount,
            jpeg=attributes.sharedJpegCount,
            ofa=attributes.sharedOfaCount,
        ),
        name=plain(name),
        memory_used_mib=memory_used_mib,
        processes=processes,
    )


def gpu_instances_of(written: bytes) -> tuple[GpuInstance, ...]:
    count = len(written) // ctypes.sizeof(binding.GpuInstanceInfo)
    infos = (binding.GpuInstanceInfo * count).from_buffer_copy(written)
    instances = [
        GpuInstance(
            id=info.id,
            profile=info.profileId,
            start=info.placement.start,
            size=info.placement.size,
        )
        for info in infos
    ]
    return tuple(sorted(instances, key=_place))


def _place(instance: GpuInstance) -> tuple[int, int]:
    return instance.start, instance.id
