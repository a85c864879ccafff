"""How GPUs are cut, as plain values: what the driver offers, what is there, and what shall be
there. Seen with privileges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from node_agent.nvml.observed import Engines


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A kind of GPU instance that the driver offers on a GPU, and where it may be."""

    id: int
    name: str
    """NVIDIA's spelling, `3g.20gb`."""
    slices: int
    """Compute slices."""
    size: int
    """Memory slices."""
    starts: tuple[int, ...]
    """Memory slices at which it may begin."""
    most: int
    """How many a GPU can have at once."""
    engines: Engines


@dataclass(frozen=True, kw_only=True)
class ComputeProfile:
    """A size of compute instance that the driver offers in a GPU instance."""

    id: int
    slices: int
    starts: tuple[int, ...] | None
    """None from drivers that do not tell places."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A compute instance, there or wanted."""

    slices: int
    start: int | None = None
    """In compute slices of its GPU instance. None: wanted, anywhere."""
    id: int | None = None
    """None: not there yet."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A GPU instance with its compute instances, there or wanted."""

    profile: int
    start: int
    size: int
    computes: tuple[Compute, ...] = ()
    id: int | None = None
    """None: not there yet."""
    offered: tuple[ComputeProfile, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        """Where what stands; two instances that agree in it are one, or cannot be at the same
        time.
        """
        return self.profile, self.start


@dataclass(frozen=True, kw_only=True)
class Process:
    """A program that uses a GPU."""

    pid: int
    name: str
    gpu_instance: int | None
    """None: the whole GPU, or the driver does not say."""
    compute_instance: int | None


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU as root sees it."""

    index: int
    uuid: str
    model: str
    minor: int | None
    """Of /dev/nvidia<minor>."""
    mig: bool | None
    """None: this GPU cannot do MIG."""
    pending: bool
    """MIG mode after the next reset."""
    offered: tuple[Profile, ...]
    """Empty where the driver tells profiles in MIG mode only and MIG is off."""
    instances: tuple[Instance, ...]
    processes: tuple[Process, ...]
    persistent: bool = True
    """Whether the driver keeps the GPU initialised while nobody uses it (persistence mode)."""
    failure: str | None = None
    """Why the GPU could not be read; then nothing else here means anything."""
    code: int = 0
    """The NVML return code behind `failure`."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What one GPU must look like, to the last place."""

    mig: bool
    instances: tuple[Instance, ...] = ()


def as_target(gpu: Gpu) -> Target:
    """What makes a GPU look like this one again."""
    return Target(mig=gpu.pending, instances=gpu.instances)


def reached(gpu: Gpu, target: Target) -> bool:
    """Whether the GPU is as wanted: mode now and after a reset, every instance at its place,
    nothing else.
    """
    if bool(gpu.mig) != target.mig or gpu.pending != target.mig:
        return False
    there = {instance.place: instance for instance in gpu.instances}
    return len(there) == len(gpu.instances) == len(target.instances) and all(
        wanted.place in there and agree(there[wanted.place].computes, wanted.computes)
        for wanted in target.instances
    )


def alike(gpu: Gpu, other: Gpu) -> bool:
    """Whether a GPU looks exactly like it did, but for the names of what was made anew."""

    def looks(g: Gpu) -> object:
        instances = sorted(
            (i.start, i.profile, i.size, tuple(sorted((c.start, c.slices) for c in i.computes)))
            for i in g.instances
        )
        return g.mig, g.pending, instances

    return looks(gpu) == looks(other)


def agree(there: Sequence[Compute], wanted: Sequence[Compute]) -> bool:
    """Whether the compute instances that are there are the wanted ones; a wanted one without a
    start may be anywhere.
    """
    left = sorted(there, key=lambda c: (c.slices, c.start or 0))
    for one in sorted(wanted, key=lambda c: (c.start is None, c.slices)):
        match = next(
            (c for c in left if c.slices == one.slices and one.start in (None, c.start)), None
        )
        if match is None:
            return False
        left.remove(match)
    return not left
