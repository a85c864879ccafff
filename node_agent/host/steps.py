"""The steps that turn a GPU's MIG state into a target, in an order that always works. Pure.

Everything is destroyed before anything is created, compute instances before their GPU instance, and
each new GPU instance has an explicit placement: with the driver's first-fit placement, an unlucky
order of creation can leave no room for the last instance (NVIDIA MIG User Guide, "Creating GPU
Instances").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slicewright.node_agent.host.mig_state import (
    ComputeInstance,
    Gpu,
    GpuInstance,
    Process,
    Target,
    same_compute_instances,
)
from slicewright.node_agent.host.placement import LayoutImpossible, place_compute_instances


@dataclass(frozen=True, kw_only=True)
class SetMigMode:
    gpu: int
    on: bool


@dataclass(frozen=True, kw_only=True)
class DestroyComputeInstance:
    gpu: int
    instance: GpuInstance
    compute: ComputeInstance


@dataclass(frozen=True, kw_only=True)
class DestroyGpuInstance:
    gpu: int
    instance: GpuInstance


@dataclass(frozen=True, kw_only=True)
class CreateGpuInstance:
    """Creates a GPU instance and its compute instances, which it needs to be usable."""

    gpu: int
    instance: GpuInstance


@dataclass(frozen=True, kw_only=True)
class CreateComputeInstance:
    """Creates a compute instance in an existing GPU instance."""

    gpu: int
    instance: GpuInstance
    compute: ComputeInstance


Step = (
    SetMigMode
    | DestroyComputeInstance
    | DestroyGpuInstance
    | CreateGpuInstance
    | CreateComputeInstance
)


def steps(gpu: Gpu, target: Target) -> tuple[Step, ...]:
    """The steps in order, none if the target is reached. Raises LayoutImpossible."""
    return tuple(_steps(gpu, target))


def changes_mig_mode(gpu: Gpu, target: Target) -> bool:
    """True if MIG mode must change: only on an idle GPU, and on Ampere only with the next reset."""
    return bool(gpu.mig) != target.mig or gpu.pending != target.mig


def affected_processes(gpu: Gpu, todo: Sequence[Step]) -> tuple[Process, ...]:
    """The processes on instances that the steps destroy. New instances affect none."""
    if any(isinstance(step, SetMigMode) for step in todo):
        return gpu.processes
    gone = {
        (step.instance.id, step.compute.id)
        for step in todo
        if isinstance(step, DestroyComputeInstance)
    }
    if not gone:
        return ()
    # A process without a known instance may be in any instance.
    return tuple(
        p
        for p in gpu.processes
        if p.gpu_instance is None or (p.gpu_instance, p.compute_instance) in gone
    )


def _steps(gpu: Gpu, target: Target) -> Iterator[Step]:
    if target.mig and changes_mig_mode(gpu, target):
        yield SetMigMode(gpu=gpu.index, on=True)
        if not gpu.mig:
            for instance in target.instances:
                yield CreateGpuInstance(gpu=gpu.index, instance=instance)
            return
    targets = {instance.position: instance for instance in target.instances}
    created: list[Step] = []
    for instance in gpu.instances:
        if instance.position in targets:
            destroyed, additions = _change(gpu.index, instance, targets.pop(instance.position))
            yield from destroyed
            created += additions
        else:
            yield from _destroy(gpu.index, instance, instance.compute_instances)
            yield DestroyGpuInstance(gpu=gpu.index, instance=instance)
    yield from created
    for instance in targets.values():
        yield CreateGpuInstance(gpu=gpu.index, instance=instance)
    if not target.mig and changes_mig_mode(gpu, target):
        yield SetMigMode(gpu=gpu.index, on=False)


def _change(gpu: int, existing: GpuInstance, target: GpuInstance) -> tuple[list[Step], list[Step]]:
    """The steps to destroy and to create compute instances inside a GPU instance that is kept."""
    if same_compute_instances(existing.compute_instances, target.compute_instances):
        return [], []
    placed = place_compute_instances(
        target.compute_instances, existing.offered, existing.compute_instances
    )
    if placed is None:
        sizes = ", ".join(f"{c.slices}c" for c in target.compute_instances)
        raise LayoutImpossible(
            f"GPU instance {existing.id} cannot hold compute instances of {sizes}"
        )
    unchanged = [
        c
        for c in existing.compute_instances
        if any((c.slices, c.start) == (p.slices, p.start) for p in placed)
    ]
    new = [
        p for p in placed if not any((c.slices, c.start) == (p.slices, p.start) for c in unchanged)
    ]
    gone = [c for c in existing.compute_instances if c not in unchanged]
    additions: list[Step] = [
        CreateComputeInstance(gpu=gpu, instance=existing, compute=c) for c in new
    ]
    return list(_destroy(gpu, existing, gone)), additions


def _destroy(
    gpu: int, instance: GpuInstance, compute_instances: Sequence[ComputeInstance]
) -> Iterator[Step]:
    for compute in compute_instances:
        yield DestroyComputeInstance(gpu=gpu, instance=instance, compute=compute)
