"""Facts that later looks at the GPUs need not read again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slicewright.node_agent.nvml.observed import (
    GpuInstance,
    MigDevice,
    MigMode,
    ObservedGpu,
    OfferedProfile,
)


@dataclass(frozen=True)
class Board:
    """Common facts of equal boards in equal mode: only one of eight GPUs is queried."""

    offered: tuple[OfferedProfile, ...]
    needs_names: bool
    """True if only the names of MIG devices distinguish some profiles."""
    most_devices: int
    """Number of MIG devices that it can have."""
    memory_slices: int | None
    slices: int | None
    """Compute slices of the whole GPU, None if the driver did not list every profile."""


@dataclass(frozen=True)
class FixedFacts:
    """Facts of a GPU that are fixed for its UUID and the same driver."""

    model: str
    pci_bus_id: str | None
    board: tuple[int, int] | None
    """Device and subsystem."""


MigFacts = tuple[bytes, bytes, int, int, bytes]
"""UUID, attributes, ids of GPU instance and compute instance, name."""


MigDevices = tuple[tuple[MigFacts, ...], tuple[MigDevice, ...]]
"""The facts of all MIG devices of a GPU, and the devices of a quick look."""


@dataclass
class Cache:
    """Facts from earlier looks of this process that later looks need not read again.

    It has plain values, no driver resources. It is cleared for another driver version, and ends
    with the process (after `worker.LOOKS` looks).
    """

    driver: str | None = None
    gpus: dict[str, FixedFacts] = field(default_factory=dict)
    """UUID -> fixed facts."""
    memory_mib: dict[tuple[str, MigMode], int] = field(default_factory=dict)
    boards: dict[Any, Board] = field(default_factory=dict)
    devices: dict[bytes, MigDevices] = field(default_factory=dict)
    """UUIDs, attributes and, if they matter, names of all devices of a GPU -> devices. Each look
    reads these keys. A UUID is new with each instance, or consists of the ids of GPU and instances:
    in both cases equal UUIDs have equal ids.
    """
    instances: dict[bytes, tuple[GpuInstance, ...]] = field(default_factory=dict)
    """The driver's data about all GPU instances of a GPU, read by each look -> GPU instances."""
    profiles: dict[str, tuple[OfferedProfile, ...]] = field(default_factory=dict)
    """UUID of a GPU -> offered profiles, beginning with profiles in use at the last look."""
    observed: dict[int, tuple[dict[str, Any], ObservedGpu]] = field(default_factory=dict)
    """Index -> facts of the last look, and the GPU with these facts."""

    def forget(self) -> None:
        for facts in (
            self.gpus,
            self.memory_mib,
            self.boards,
            self.devices,
            self.instances,
            self.profiles,
            self.observed,
        ):
            facts.clear()
