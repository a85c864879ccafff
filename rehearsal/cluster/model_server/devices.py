"""The devices that CUDA would show to a container, and how many tokens a replica makes on one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slicewright.node_agent.nvml.observed import Observation, ObservedGpu

_TOKENS_PER_MULTIPROCESSOR: Final = 20.0
"""Tokens a second. Chosen, not measured: only ratios between devices mean anything."""
_FULL_AT: Final = 60
"""Multiprocessors that one replica can keep busy: those of an H100's 3g.40gb.

By construction: of eight H100 cut in two, the published walkthrough reports twice the tokens of
eight whole ones. That holds only where a replica cannot fill more than half a GPU.
"""


class NoDevice(Exception):
    """CUDA would find none, or too few; the message is what vLLM or PyTorch says then."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A whole GPU, or one partition."""

    uuid: str
    name: str
    multiprocessors: int | None
    """None: not known, for a whole GPU that cannot be partitioned."""
    memory_mib: int | None


def devices(observation: Observation) -> tuple[Device, ...]:
    """What CUDA enumerates: whole GPUs, or else the first partition and no other.

    Source: NVIDIA MIG user guide, "CUDA Device Enumeration". Raises NoDevice.
    """
    if observation.failure is not None:
        raise NoDevice(f"RuntimeError: Failed to infer device type ({observation.failure.text})")
    whole = tuple(_whole(gpu) for gpu in observation.gpus if gpu.mig != "enabled" and gpu.uuid)
    partitions = [
        Device(
            uuid=device.uuid,
            name=device.name,
            multiprocessors=device.multiprocessors,
            memory_mib=device.memory_mib,
        )
        for gpu in observation.gpus
        for device in gpu.devices
    ]
    listed = tuple(partitions[:1]) or whole
    if not listed:
        raise NoDevice("RuntimeError: No CUDA GPUs are available")
    return listed


def replica_devices(available: tuple[Device, ...], count: int) -> tuple[Device, ...]:
    """Those of one replica. Raises NoDevice where there are fewer than `count`."""
    if len(available) < count:
        raise NoDevice(
            f"AssertionError: please set tensor_parallel_size ({count}) to less than max local "
            f"gpu count ({len(available)})"
        )
    return available[:count]


def tokens_per_second(used: tuple[Device, ...]) -> float:
    """Simulated: follows the multiprocessors of a replica's devices, as far as it fills them."""
    busy = sum(min(device.multiprocessors or _FULL_AT, _FULL_AT) for device in used)
    return busy * _TOKENS_PER_MULTIPROCESSOR


def _whole(gpu: ObservedGpu) -> Device:
    of_profiles = [offered.multiprocessors for offered in gpu.offered]
    return Device(
        uuid=str(gpu.uuid),
        name=gpu.model or "GPU",
        multiprocessors=max(of_profiles, default=None),
        memory_mib=gpu.memory_mib,
    )
