"""MIG state of GPUs as plain values: offered profiles, existing instances, and targets.

Reading it needs root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slicewright.node_agent.nvml.observed import Engines


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A GPU instance profile that the driver offers on a GPU, with its possible placements."""

    id: int
    name: str
    """NVIDIA's spelling, `3g.20gb`."""
    slices: int
    """Compute slices."""
    size: int
    """Memory slices."""
    starts: tuple[int, ...]
    """Memory slices where an instance can start."""
    most: int
    """Number of instances that a GPU can have at once."""
    engines: Engines


@dataclass(frozen=True, kw_only=True)
class ComputeProfile:
    """A size of compute instance that the driver offers in a GPU instance."""

    id: int
    slices: int
    starts: tuple[int, ...] | None
    """None if the driver does not report placements."""


@dataclass(frozen=True, kw_only=True)
class ComputeInstance:
    """A compute instance, existing or planned."""

    slices: int
    start: int | None = None
    """Start in compute slices of its GPU instance. None: any start is acceptable."""
    id: int | None = None
    """None: not created yet."""


@dataclass(frozen=True, kw_only=True)
class GpuInstance:
    """A GPU instance with its compute instances, existing or planned."""

    profile: int
    start: int
    size: int
    compute_instances: tuple[ComputeInstance, ...] = ()
    id: int | None = None
    """None: not created yet."""
    offered: tuple[ComputeProfile, ...] = ()

    @property
    def position(self) -> tuple[int, int]:
        """Profile and start: two instances with the same position cannot exist at the same time."""
        return self.profile, self.start


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process that uses a GPU."""

    pid: int
    name: str
    gpu_instance: int | None
    """None: the whole GPU, or unknown to the driver."""
    compute_instance: int | None


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU as root sees it."""

    index: int
    uuid: str
    model: str
    minor: int | None
    """Minor number, as in /dev/nvidia<minor>."""
    mig: bool | None
    """Current MIG mode. None: this GPU does not support MIG."""
    pending: bool
    """MIG mode after the next reset."""
    offered: tuple[Profile, ...]
    """Empty if MIG is off and the driver lists profiles in MIG mode only."""
    instances: tuple[GpuInstance, ...]
    processes: tuple[Process, ...]
    persistent: bool = True
    """True if the driver keeps the GPU initialised while no program uses it (persistence mode)."""
    failure: str | None = None
    """Why the GPU could not be read. Other fields are then meaningless."""
    code: int = 0
    """The NVML return code behind `failure`."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The MIG mode and all instances, with placements, that a GPU must have."""

    mig: bool
    instances: tuple[GpuInstance, ...] = ()


def target_to_restore(gpu: Gpu) -> Target:
    """The target that restores this state."""
    return Target(mig=gpu.pending, instances=gpu.instances)


def is_reached(gpu: Gpu, target: Target) -> bool:
    """True if MIG mode, now and after a reset, and all instances match the target."""
    if bool(gpu.mig) != target.mig or gpu.pending != target.mig:
        return False
    existing = {instance.position: instance for instance in gpu.instances}
    return len(existing) == len(gpu.instances) == len(target.instances) and all(
        target_instance.position in existing
        and same_compute_instances(
            existing[target_instance.position].compute_instances, target_instance.compute_instances
        )
        for target_instance in target.instances
    )


def same_layout(gpu: Gpu, other: Gpu) -> bool:
    """True if two states of a GPU differ only in instance ids and UUIDs."""

    def layout(g: Gpu) -> object:
        instances = sorted(
            (
                i.start,
                i.profile,
                i.size,
                tuple(sorted((c.start, c.slices) for c in i.compute_instances)),
            )
            for i in g.instances
        )
        return g.mig, g.pending, instances

    return layout(gpu) == layout(other)


def same_compute_instances(
    existing: Sequence[ComputeInstance], target: Sequence[ComputeInstance]
) -> bool:
    """True if existing compute instances match the target. Without a start, any start matches."""
    unmatched = sorted(existing, key=lambda c: (c.slices, c.start or 0))
    for instance in sorted(target, key=lambda c: (c.start is None, c.slices)):
        match = next(
            (
                c
                for c in unmatched
                if c.slices == instance.slices and instance.start in (None, c.start)
            ),
            None,
        )
        if match is None:
            return False
        unmatched.remove(match)
    return not unmatched
