"""The commands `apply` and `clear`, which partition the GPUs of a host without Kubernetes."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from slicewright.apis.layout import GpuLayout, Layout, LayoutError, ranges
from slicewright.node_agent.display import show
from slicewright.node_agent.host import gpu_processes, placement, transaction
from slicewright.node_agent.host.mig_state import Gpu, Process
from slicewright.node_agent.host.steps import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    SetMigMode,
    Step,
)
from slicewright.node_agent.host.transaction import (
    GpuReader,
    GpusInUse,
    NvmlCallFailed,
    Plan,
    RollbackFailed,
    RolledBack,
    StopRequested,
)
from slicewright.node_agent.nvml.observed import ObservedGpu
from slicewright.node_agent.nvml.profiles import name_of_profile

DONE, UNCHANGED, WRONG_USE, RESET_NEEDED, ROLLBACK_FAILED = 0, 1, 2, 4, 5
# /tmp is the last resort, used only for a lock.
_LOCKS = (Path("/run/lock"), Path("/run"), Path("/tmp"))  # noqa: S108
_NO_PERMISSION = 4
_READ_EVERY_S = 1.0


def apply(layout: Layout, *, deadline_s: float, dry_run: bool = False, wait_s: float = 0.0) -> int:
    """Partitions GPUs and returns the exit code.

    0: done, 1: refused or rolled back, 2: the layout is wrong or the driver does not answer, 4: a
    GPU needs a reset or a reboot, 5: the rollback failed. wait_s: how long to wait for a GPU in
    use. deadline_s: time limit of each reading of the GPUs before anything is changed.
    """
    from slicewright.node_agent.host.reader import Reader

    try:
        with _one_change_at_a_time(), _stop_between_steps() as stop:
            return _apply(Reader(deadline_s=deadline_s, stop=stop), layout, dry_run, wait_s, stop)
    except NvmlCallFailed as e:
        return _problem(_add_advice(str(e), e), WRONG_USE)
    except StopRequested as e:
        return _problem(f"{e}; nothing was changed", UNCHANGED)


def _apply(
    reader: GpuReader, layout: Layout, dry_run: bool, wait_s: float, stop: Callable[[], bool]
) -> int:
    try:
        planned = transaction.plan(reader, lambda gpus: _select(layout, gpus))
    except LayoutError as e:
        return _problem(str(e), WRONG_USE)
    except placement.LayoutImpossible as e:
        return _problem(str(e), UNCHANGED)
    _warn_about_persistence(planned)
    if not planned.changes:
        layouts = (f"GPU {index} {gpu_layout}" for index, gpu_layout in planned.layouts.items())
        _say(f"nothing to do: {'; '.join(layouts)}")
        return DONE
    names = {gpu.index: {p.id: p.name for p in gpu.offered} for gpu in planned.before}
    if dry_run:
        return _print_plan(planned, names)
    planned = _wait_until_free(reader, layout, planned, wait_s, stop)
    return _execute(planned, names, stop)


def _warn_about_persistence(planned: Plan) -> None:
    for gpu in planned.before:
        if gpu.index in planned.layouts and planned.layouts[gpu.index].mig and not gpu.persistent:
            _say(_PERSISTENCE_OFF.format(gpu=gpu.index), sys.stderr)


def _execute(
    planned: Plan, names: Mapping[int, Mapping[int, str]], stop: Callable[[], bool]
) -> int:
    from slicewright.node_agent.host import partition

    try:
        with partition.opened() as silicon:
            done = transaction.execute(
                silicon, planned, lambda step: _say(describe(step, names)), stop
            )
    except GpusInUse as e:
        return _problem(_in_use_message(e.gpus), UNCHANGED)
    except RolledBack as e:
        return _problem(
            f"{_add_advice(str(e), e.__cause__)}\nrolled back: every GPU is as before", UNCHANGED
        )
    except RollbackFailed as e:
        return _problem(
            f"{e}\ncheck with `slicewright-agent show`, then apply again", ROLLBACK_FAILED
        )
    for index in done.waiting:
        _say(_NEEDS_RESET.format(gpu=index, mode="on" if planned.layouts[index].mig else "off"))
    if done.waiting:
        return RESET_NEEDED
    _say(
        "done and checked: "
        + "; ".join(f"GPU {index} {planned.layouts[index]}" for index in done.changed)
    )
    return DONE


def profiles(gpus: Sequence[ObservedGpu], *, deadline_s: float) -> str:
    """Tables of the profiles that the driver offers. GPUs with equal profiles share a table.

    Only root sees placements. Raises NvmlCallFailed.
    """
    starts = _read_placements(deadline_s)
    by_table: dict[str, list[ObservedGpu]] = {}
    for gpu in gpus:
        by_table.setdefault(f"{gpu.model}\n{_profile_table(gpu, starts)}", []).append(gpu)
    return "\n\n".join(
        f"GPU {ranges(gpu.index for gpu in alike)}  {text}" for text, alike in by_table.items()
    )


def _profile_table(gpu: ObservedGpu, starts: Mapping[tuple[int, int], str]) -> str:
    if not gpu.offered:
        return (
            "no MIG" if gpu.mig == "unsupported" else "this driver lists profiles with MIG on only"
        )
    rows: list[tuple[str, ...]] = [
        ("profile", "ID", "max", "slices", "SMs", "MiB", "DEC/ENC/JPEG/OFA", "placements")
    ]
    for p in gpu.offered:
        name = name_of_profile(p, gpu.memory_mib) or "?"
        numbers = (p.id, p.most, p.slices, p.multiprocessors, p.memory_mib)
        engines = f"{p.engines.decoders}/{p.engines.encoders}/{p.engines.jpeg}/{p.engines.ofa}"
        where = starts.get((gpu.index, p.id), "root only")
        rows.append((name, *map(str, numbers), engines, where))
    return show.table(rows)


def _read_placements(deadline_s: float) -> Mapping[tuple[int, int], str]:
    """(GPU, profile) -> placements, empty without privileges."""
    from slicewright.node_agent.host.reader import Reader

    gpus = Reader(deadline_s=deadline_s).read()
    return {
        (gpu.index, p.id): f"{', '.join(map(str, p.starts))} (each {p.size})"
        for gpu in gpus
        for p in gpu.offered
    }


def describe(step: Step, names: Mapping[int, Mapping[int, str]]) -> str:
    """A step in a line."""

    def name(gpu: int, profile: int) -> str:
        return names.get(gpu, {}).get(profile, f"profile {profile}")

    match step:
        case SetMigMode():
            return f"GPU {step.gpu}: turn MIG {'on' if step.on else 'off'}"
        case DestroyComputeInstance():
            where = f"of GPU instance {step.instance.id} ({name(step.gpu, step.instance.profile)})"
            return f"GPU {step.gpu}: destroy compute instance {step.compute.id} {where}"
        case DestroyGpuInstance():
            text = f"{name(step.gpu, step.instance.profile)} at {step.instance.start}"
            return f"GPU {step.gpu}: destroy GPU instance {step.instance.id}, {text}"
        case CreateGpuInstance():
            inside = [c.slices for c in step.instance.compute_instances]
            text = f"create {name(step.gpu, step.instance.profile)} at {step.instance.start}"
            return f"GPU {step.gpu}: {text} with {_describe_sizes(inside)}"
        case CreateComputeInstance():
            where = f"in GPU instance {step.instance.id}"
            return f"GPU {step.gpu}: create {_describe_sizes([step.compute.slices])} {where}"


def _select(layout: Layout, gpus: Sequence[Gpu]) -> Mapping[int, GpuLayout]:
    layouts = layout.resolve({gpu.index: gpu.uuid for gpu in gpus})
    by_index = {gpu.index: gpu for gpu in gpus}
    # A GPU without MIG has it off already, so `all:off` must not fail for it.
    return {
        index: gpu_layout
        for index, gpu_layout in layouts.items()
        if gpu_layout.mig or by_index[index].mig is not None
    }


def _wait_until_free(
    reader: GpuReader, layout: Layout, planned: Plan, wait_s: float, stop: Callable[[], bool]
) -> Plan:
    """The plan once no process uses the GPUs, or the last plan after the wait."""
    until = time.monotonic() + wait_s
    announced = False
    while (busy := transaction.gpus_in_use(planned)) and time.monotonic() < until and not stop():
        if not announced:
            _say(f"waiting up to {wait_s:g} s: {_in_use_message(busy)}", sys.stderr)
            announced = True
        time.sleep(min(_READ_EVERY_S, wait_s))
        planned = transaction.plan(reader, lambda gpus: _select(layout, gpus))
    return planned


def _print_plan(planned: Plan, names: Mapping[int, Mapping[int, str]]) -> int:
    for index, todo in planned.todo.items():
        if not todo:
            print(f"GPU {index}: no change")
        for step in todo:
            print(describe(step, names))
            if isinstance(step, SetMigMode):
                print(_MAY_NEED_RESET.format(gpu=index, code=RESET_NEEDED))
        if index in planned.deferred:
            print(
                f"GPU {index}: then search placements for {planned.layouts[index]}; this driver "
                "lists profiles with MIG on only"
            )
    print("dry run: nothing was changed")
    if busy := transaction.gpus_in_use(planned):
        return _problem(_in_use_message(busy), UNCHANGED)
    return DONE


def _in_use_message(gpus: Mapping[int, Sequence[Process]]) -> str:
    lines = [
        f"GPU {index} is in use by {', '.join(map(gpu_processes.describe, processes))}"
        for index, processes in gpus.items()
    ]
    return "\n".join([*lines, "stop them, or choose another GPU; nothing was changed"])


_PERSISTENCE_OFF = (
    "GPU {gpu}: persistence mode is off; the driver may lose partitions while no program runs. "
    "Turn it on: nvidia-smi -i {gpu} -pm 1"
)
# NVML does not predict it: A100 and A30 need a reset, H100 and later change at once.
_MAY_NEED_RESET = (
    "GPU {gpu}: this may need a reset of the GPU or a reboot (A100 and A30 do): then apply ends "
    "here with exit code {code}; run it again after the reset"
)
_NEEDS_RESET = (
    "GPU {gpu}: MIG mode turns {mode} with the GPU's next reset. Stop its programs, then "
    "run nvidia-smi -i {gpu} --gpu-reset (in a virtual machine: reboot), then apply again."
)
_ROOT = "partitioning GPUs, and reading placements, needs root: run it with sudo"


def _add_advice(text: str, cause: BaseException | None) -> str:
    return (
        f"{text}\n{_ROOT}"
        if isinstance(cause, NvmlCallFailed) and cause.code == _NO_PERMISSION
        else text
    )


def _describe_sizes(sizes: Sequence[int]) -> str:
    if len(sizes) == 1:
        return f"a compute instance of {sizes[0]} slice{'s' if sizes[0] > 1 else ''}"
    return (
        f"compute instances of {', '.join(map(str, sizes))} slices"
        if sizes
        else "no compute instance"
    )


def _problem(text: str, code: int) -> int:
    for line in text.splitlines():
        _say(f"slicewright-agent: {line}", sys.stderr)
    return code


def _say(text: str, to: TextIO | None = None) -> None:
    """Prints and never fails: a closed pipe or a full disk must not interrupt a change."""
    stream = to or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # The rest of the buffer would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _one_change_at_a_time() -> Iterator[None]:
    """Allows a single change at a time: two would see each other's intermediate states."""
    path = next((d for d in _LOCKS if os.access(d, os.W_OK)), _LOCKS[-1]) / "slicewright-agent.lock"
    # O_NOFOLLOW: in a world-writable directory the name could be a link to another file.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError:
        # The file belongs to root, and this is not root: the driver will refuse every change.
        yield
        return
    try:
        # lockf, not flock: a child that hangs in the driver must not keep the lock.
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _say(
                f"waiting: another apply or clear is running on this machine (it holds {path})",
                sys.stderr,
            )
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _stop_between_steps() -> Iterator[Callable[[], bool]]:
    """Defers Ctrl-C, SIGTERM and SIGHUP to the end of the current step, before a rollback."""
    from slicewright.node_agent.host.reader import STOPPING

    received: list[int] = []
    # An ignored signal stays ignored: `nohup` relies on it.
    handled = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
    before = {
        number: signal.signal(number, lambda got, _: received.append(got)) for number in handled
    }
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
