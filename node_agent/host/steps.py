"""What must be done to a GPU so that it becomes what is wanted: pure, in an order that always
works.

Everything that must go goes before anything comes, compute instances before the GPU instance around
them, and each new GPU instance at its own place: so no order of creation can block another (the
driver's first fit can: nvidia.md 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from node_agent.host.cut import Compute, Gpu, Instance, Process, Target, agree
from node_agent.host.placement import Impossible, place_computes


@dataclass(frozen=True, kw_only=True)
class SetMode:
    gpu: int
    on: bool


@dataclass(frozen=True, kw_only=True)
class DestroyCompute:
    gpu: int
    instance: Instance
    compute: Compute


@dataclass(frozen=True, kw_only=True)
class DestroyInstance:
    gpu: int
    instance: Instance


@dataclass(frozen=True, kw_only=True)
class CreateInstance:
    """A GPU instance with its compute instances: without them nothing could use it."""

    gpu: int
    instance: Instance


@dataclass(frozen=True, kw_only=True)
class CreateCompute:
    """In a GPU instance that stays."""

    gpu: int
    instance: Instance
    compute: Compute


Step = SetMode | DestroyCompute | DestroyInstance | CreateInstance | CreateCompute


def steps(gpu: Gpu, target: Target) -> tuple[Step, ...]:
    """In the order in which they are to be done; empty where the GPU is as wanted. Raises
    Impossible.
    """
    return tuple(_steps(gpu, target))


def change_of_mode(gpu: Gpu, target: Target) -> bool:
    """Whether MIG mode itself must change. The driver does that on an idle GPU only, on Ampere at
    the next reset only.
    """
    return bool(gpu.mig) != target.mig or gpu.pending != target.mig


def in_the_way(gpu: Gpu, todo: Sequence[Step]) -> tuple[Process, ...]:
    """The processes that would lose what they run on. What only adds instances disturbs nobody."""
    if any(isinstance(step, SetMode) for step in todo):
        return gpu.processes
    gone = {
        (step.instance.id, step.compute.id) for step in todo if isinstance(step, DestroyCompute)
    }
    if not gone:
        return ()
    # A process that the driver does not place is taken to be anywhere.
    return tuple(
        p
        for p in gpu.processes
        if p.gpu_instance is None or (p.gpu_instance, p.compute_instance) in gone
    )


def _steps(gpu: Gpu, target: Target) -> Iterator[Step]:
    if target.mig and change_of_mode(gpu, target):
        yield SetMode(gpu=gpu.index, on=True)
        if not gpu.mig:
            for instance in target.instances:
                yield CreateInstance(gpu=gpu.index, instance=instance)
            return
    wanted = {instance.place: instance for instance in target.instances}
    created: list[Step] = []
    for instance in gpu.instances:
        if instance.place in wanted:
            destroyed, made = _mend(gpu.index, instance, wanted.pop(instance.place))
            yield from destroyed
            created += made
        else:
            yield from _destroy(gpu.index, instance, instance.computes)
            yield DestroyInstance(gpu=gpu.index, instance=instance)
    yield from created
    for instance in wanted.values():
        yield CreateInstance(gpu=gpu.index, instance=instance)
    if not target.mig and change_of_mode(gpu, target):
        yield SetMode(gpu=gpu.index, on=False)


def _mend(gpu: int, there: Instance, wanted: Instance) -> tuple[list[Step], list[Step]]:
    """What to destroy and what to create inside a GPU instance that stays."""
    if agree(there.computes, wanted.computes):
        return [], []
    placed = place_computes(wanted.computes, there.offered, there.computes)
    if placed is None:
        sizes = ", ".join(f"{c.slices}c" for c in wanted.computes)
        raise Impossible(f"GPU instance {there.id} cannot hold compute instances of {sizes}")
    kept = [
        c for c in there.computes if any((c.slices, c.start) == (p.slices, p.start) for p in placed)
    ]
    new = [p for p in placed if not any((c.slices, c.start) == (p.slices, p.start) for c in kept)]
    gone = [c for c in there.computes if c not in kept]
    made: list[Step] = [CreateCompute(gpu=gpu, instance=there, compute=c) for c in new]
    return list(_destroy(gpu, there, gone)), made


def _destroy(gpu: int, instance: Instance, computes: Sequence[Compute]) -> Iterator[Step]:
    for compute in computes:
        yield DestroyCompute(gpu=gpu, instance=instance, compute=compute)
