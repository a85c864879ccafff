"""All or nothing: GPUs get the requested layout, or are rolled back to their earlier state.

The rollback replays no journal: it reads the current state and takes the steps from there to the
earlier state. So it also undoes a call that failed half way, or that worked despite its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slicewright.apis.layout import GpuLayout
from slicewright.node_agent.host.mig_state import (
    ComputeInstance,
    ComputeProfile,
    Gpu,
    GpuInstance,
    Process,
    Target,
    is_reached,
    same_layout,
    target_to_restore,
)
from slicewright.node_agent.host.placement import LayoutImpossible, place, place_compute_instances
from slicewright.node_agent.host.steps import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    SetMigMode,
    Step,
    affected_processes,
    steps,
)

_ROLLBACK_TRIES = 3


class NvmlCallFailed(Exception):
    """An NVML call failed. The error has its return code and the meaning."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text}")
        self.call, self.code, self.text = call, code, text


class StopRequested(Exception):
    """A signal requested a stop between two steps."""


class NotConfirmed(Exception):
    """Every call succeeded, but the GPUs do not have the requested layout."""


class GpusInUse(Exception):
    """Processes use instances that would be destroyed. Nothing was changed."""

    def __init__(self, gpus: Mapping[int, Sequence[Process]]) -> None:
        super().__init__(", ".join(f"GPU {index}" for index in gpus))
        self.gpus = gpus


class RolledBack(Exception):
    """The change failed, and every GPU is as before, except for UUIDs of recreated instances."""


class RollbackFailed(Exception):
    """The change failed, and so did the rollback. The message has the remaining differences."""


class GpuReader(Protocol):
    """Reads the GPUs of a machine. Raises NvmlCallFailed."""

    def read(self) -> tuple[Gpu, ...]: ...


class GpuPartitioner(GpuReader, Protocol):
    """Reads and changes the GPUs of a machine. Every method raises NvmlCallFailed."""

    def set_mig_mode(self, gpu: int, *, on: bool) -> str | None:
        """None if the mode has changed, else why it changes later."""

    def create_gpu_instance(self, gpu: int, instance: GpuInstance) -> int: ...
    def compute_profiles(self, gpu: int, instance: int) -> tuple[ComputeProfile, ...]: ...
    def create_compute_instance(
        self, gpu: int, instance: int, profile: int, compute: ComputeInstance
    ) -> None: ...
    def destroy_compute_instance(self, gpu: int, instance: int, compute: int) -> None: ...
    def destroy_gpu_instance(self, gpu: int, instance: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps to a layout."""

    before: tuple[Gpu, ...]
    layouts: Mapping[int, GpuLayout]
    todo: Mapping[int, tuple[Step, ...]]
    """GPU in the layout -> its steps, empty if it has its layout already."""
    deferred: tuple[int, ...] = ()
    """GPUs whose profiles the driver lists only with MIG on: placements are searched later."""

    @property
    def changes(self) -> bool:
        return any(self.todo.values())


@dataclass(frozen=True, kw_only=True)
class Done:
    changed: tuple[int, ...]
    waiting: Mapping[int, str]
    """GPUs whose MIG mode changes with the next reset, and the driver's message."""


def plan(silicon: GpuReader, select: Callable[[Sequence[Gpu]], Mapping[int, GpuLayout]]) -> Plan:
    """Plans the steps to a layout. Raises LayoutImpossible, naming the GPU, and NvmlCallFailed."""
    before = silicon.read()
    layouts = select(before)
    todo: dict[int, tuple[Step, ...]] = {}
    deferred = []
    problems = []
    for gpu in before:
        if gpu.index not in layouts:
            continue
        layout = layouts[gpu.index]
        todo[gpu.index] = ()
        if gpu.failure:
            # Whether the layout is possible is not known.
            raise NvmlCallFailed(f"GPU {gpu.index}", gpu.code, gpu.failure)
        if gpu.mig is None:
            if layout.mig:
                problems.append(
                    f"GPU {gpu.index} ({gpu.model}): this GPU, or its driver, does not support MIG"
                )
        elif layout.parts and not gpu.offered and not gpu.mig:
            deferred.append(gpu.index)
            todo[gpu.index] = (SetMigMode(gpu=gpu.index, on=True),)
        else:
            try:
                todo[gpu.index] = steps(gpu, target_of(gpu, layout))
            except LayoutImpossible as e:
                problems.append(f"GPU {gpu.index} ({gpu.model}): {e}")
    if problems:
        raise LayoutImpossible("\n".join(problems))
    return Plan(before=before, layouts=layouts, todo=todo, deferred=tuple(deferred))


def gpus_in_use(planned: Plan) -> Mapping[int, Sequence[Process]]:
    """GPU -> the processes on instances that would be destroyed."""
    affected = {
        gpu.index: affected_processes(gpu, planned.todo.get(gpu.index, ()))
        for gpu in planned.before
    }
    return {index: processes for index, processes in affected.items() if processes}


def execute(
    silicon: GpuPartitioner,
    planned: Plan,
    say: Callable[[Step], None],
    stop: Callable[[], bool] = lambda: False,
) -> Done:
    """Carries out a plan and checks the result. Rolls back on any failure.

    say: called with each step before it is done. stop: whether to stop before the next step.
    Raises GpusInUse, RolledBack and RollbackFailed.
    """
    if busy := gpus_in_use(planned):
        raise GpusInUse(busy)
    if not planned.changes:
        return Done(changed=(), waiting={})
    try:
        waiting = _do_all(silicon, planned, say, stop)
        _confirm(silicon, planned, waiting)
    except BaseException as e:
        # Catches every error, even bugs: nothing else would repair a half-partitioned GPU.
        differences = _roll_back(silicon, planned)
        if differences:
            raise RollbackFailed(
                f"{_text(e)}; the rollback failed: {'; '.join(differences)}"
            ) from e
        raise RolledBack(_text(e)) from e
    return Done(
        changed=tuple(index for index, todo in planned.todo.items() if todo), waiting=waiting
    )


def target_of(gpu: Gpu, layout: GpuLayout) -> Target:
    """The target of a layout, with placements. Raises LayoutImpossible."""
    return Target(mig=layout.mig, instances=place(layout, gpu.offered, gpu.instances))


def _do_all(
    silicon: GpuPartitioner, planned: Plan, say: Callable[[Step], None], stop: Callable[[], bool]
) -> dict[int, str]:
    waiting: dict[int, str] = {}
    for index, todo in planned.todo.items():
        for step in todo:
            if index not in waiting:
                _do(silicon, step, waiting, say, stop)
    late = [index for index in planned.deferred if index not in waiting]
    for gpu in silicon.read() if late else ():
        if gpu.index in late:
            for step in steps(gpu, target_of(gpu, planned.layouts[gpu.index])):
                _do(silicon, step, waiting, say, stop)
    return waiting


def _do(
    silicon: GpuPartitioner,
    step: Step,
    waiting: dict[int, str],
    say: Callable[[Step], None],
    stop: Callable[[], bool],
) -> None:
    if stop():
        raise StopRequested("stop requested")
    say(step)
    match step:
        case SetMigMode():
            why = silicon.set_mig_mode(step.gpu, on=step.on)
            if why:
                waiting[step.gpu] = why
        case DestroyComputeInstance():
            silicon.destroy_compute_instance(step.gpu, _id(step.instance), _id(step.compute))
        case DestroyGpuInstance():
            silicon.destroy_gpu_instance(step.gpu, _id(step.instance))
        case CreateGpuInstance():
            created = silicon.create_gpu_instance(step.gpu, step.instance)
            if step.instance.compute_instances:
                offered = silicon.compute_profiles(step.gpu, created)
                for compute in _place(step.instance.compute_instances, offered, created):
                    silicon.create_compute_instance(
                        step.gpu, created, _profile_of(compute, offered), compute
                    )
        case CreateComputeInstance():
            offered = step.instance.offered
            silicon.create_compute_instance(
                step.gpu, _id(step.instance), _profile_of(step.compute, offered), step.compute
            )


def _place(
    requested: Sequence[ComputeInstance], offered: Sequence[ComputeProfile], instance: int
) -> Sequence[ComputeInstance]:
    placed = place_compute_instances(requested, offered)
    if placed is None:
        sizes = ", ".join(f"{c.slices}c" for c in requested)
        raise LayoutImpossible(f"GPU instance {instance} cannot hold compute instances of {sizes}")
    return placed


def _profile_of(compute: ComputeInstance, offered: Sequence[ComputeProfile]) -> int:
    return next(profile.id for profile in offered if profile.slices == compute.slices)


def _id(thing: GpuInstance | ComputeInstance) -> int:
    assert thing.id is not None, "only existing instances are destroyed or added to"
    return thing.id


def _confirm(silicon: GpuPartitioner, planned: Plan, waiting: Mapping[int, str]) -> None:
    """Checks the result: a successful call may still have created no partition."""
    before = {gpu.index: gpu for gpu in planned.before}
    for gpu in silicon.read():
        layout = planned.layouts.get(gpu.index)
        if layout is None or not planned.todo[gpu.index]:
            continue
        if gpu.failure:
            raise NotConfirmed(f"GPU {gpu.index}: the result cannot be read: {gpu.failure}")
        if gpu.index in waiting:
            if gpu.pending != layout.mig:
                raise NotConfirmed(
                    f"GPU {gpu.index}: MIG mode does not stay pending ({waiting[gpu.index]})"
                )
        elif not is_reached(gpu, target_of(gpu, layout)):
            raise NotConfirmed(
                f"GPU {gpu.index}: every call succeeded, but the GPU does not have the layout"
            )
        elif gpu.uuid != before[gpu.index].uuid:
            raise NotConfirmed(f"GPU {gpu.index}: this index now belongs to another GPU")


def _roll_back(silicon: GpuPartitioner, planned: Plan) -> list[str]:
    """Rolls back and returns the remaining differences. Retries, as a failure may be brief."""
    problems: list[str] = []
    for _ in range(_ROLLBACK_TRIES):
        problems = list(_roll_back_once(silicon, planned))
        if not problems:
            break
    return problems


def _roll_back_once(silicon: GpuPartitioner, planned: Plan) -> Iterator[str]:
    touched = {gpu.index: gpu for gpu in planned.before if planned.todo.get(gpu.index)}
    try:
        now = silicon.read()
    except Exception as e:  # noqa: BLE001 - as below
        yield f"{_gpus(touched)}: the current state cannot be read: {_text(e)}"
        return
    for gpu in now:
        was = touched.get(gpu.index)
        if was is None or (not gpu.failure and same_layout(gpu, was)):
            continue
        if gpu.failure:
            yield f"GPU {gpu.index}: the current state cannot be read: {gpu.failure}"
            continue
        try:
            waiting: dict[int, str] = {}
            for step in steps(gpu, target_to_restore(was)):
                if not waiting:
                    _do(silicon, step, waiting, lambda _: None, lambda: False)
            if waiting and bool(was.mig) == was.pending:
                yield f"GPU {gpu.index}: MIG mode: {waiting[gpu.index]}"
        except Exception as e:  # noqa: BLE001 - after any error, the next GPU must follow
            yield f"GPU {gpu.index}: {_text(e)}"
    try:
        for gpu in silicon.read():
            was = touched.get(gpu.index)
            if was is not None and (gpu.failure or not same_layout(gpu, was)):
                yield f"GPU {gpu.index} is not as before"
    except Exception as e:  # noqa: BLE001 - as below
        yield f"{_gpus(touched)}: the current state cannot be read: {_text(e)}"


def _text(error: BaseException) -> str:
    return (
        str(error)
        if isinstance(error, NvmlCallFailed | LayoutImpossible | NotConfirmed | StopRequested)
        else f"{type(error).__name__}: {error}"
    )


def _gpus(indexes: Mapping[int, Gpu]) -> str:
    return f"GPU {', '.join(map(str, indexes))}"
