"""Whatever goes wrong, and wherever: the GPUs are as wanted, or exactly as they were."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.apis.layout import GpuLayout, Layout, parse
from slicewright.node_agent.host import partition, transaction
from slicewright.node_agent.host.mig_state import Gpu
from slicewright.node_agent.host.placement import LayoutImpossible
from slicewright.node_agent.host.steps import DestroyGpuInstance, SetMigMode
from slicewright.node_agent.host.transaction import (
    Done,
    GpusInUse,
    NvmlCallFailed,
    RollbackFailed,
    RolledBack,
)
from slicewright.rehearsal.cluster.silicon import models, state
from slicewright.rehearsal.cluster.silicon import placement as silicon_rules
from tests.properties import examples

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="cutting GPUs is for root, in reality and on the fake"
)
OnSilicon = Callable[[Path], None]
fixtures_ok = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass
class Faulty:
    """Passes everything on, but the `at`-th call: it fails before it is done, or after it."""

    real: Any
    at: int
    after: bool
    calls: int = 0
    times: int = 1
    trouble: Callable[[str, str], Exception] = lambda call, why: NvmlCallFailed(call, 999, why)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            fails = self.at <= self.calls < self.at + self.times
            if fails and not self.after:
                raise self.trouble(name, "injected")
            answer = getattr(self.real, name)(*arguments, **named)
            if fails:
                raise self.trouble(name, "injected, though it was done")
            return answer

        return call


def resolver(layout: Layout) -> Callable[[Sequence[Gpu]], Mapping[int, GpuLayout]]:
    return lambda gpus: layout.resolve({gpu.index: gpu.uuid for gpu in gpus})


def apply(silicon: Any, layout: Layout, *, stop: Callable[[], bool] = lambda: False) -> Done:
    planned = transaction.plan(silicon, resolver(layout))
    return transaction.execute(silicon, planned, lambda _: None, stop)


def layouts(path: Path) -> list[object]:
    """Per GPU MIG mode and instances, without ids and UUIDs."""

    def instances(gpu: state.Gpu) -> object:
        return sorted(
            (i.start, i.profile, sorted((c.start, c.slices) for c in i.compute_instances))
            for i in gpu.instances
        )

    return [(gpu.mig, gpu.mig_pending, instances(gpu)) for gpu in state.load(path).gpus]


def devices(path: Path, index: int) -> Counter[str]:
    return Counter(state.load(path).gpus[index].profiles)


MODELS = ("H100-80", "A30", "RTX-PRO-6000")


@st.composite
def cuts(draw: st.DrawFn, model: str) -> list[str] | None:
    """MIG devices that fit one GPU together; None: MIG off."""
    if draw(st.integers(0, 4)) == 0:
        return None
    names = [s.name for s in models.model(model).slices]
    found: list[str] = []
    for name in draw(st.lists(st.sampled_from(names), max_size=6)):
        try:
            silicon_rules.place(
                models.model(model), [models.model(model).slice(n) for n in [*found, name]]
            )
        except silicon_rules.NoRoom:
            continue
        found.append(name)
    if model == "H100-80" and draw(st.booleans()):
        found = [f"1c.{name}" if name.startswith(("2g", "3g")) else name for name in found]
    return found


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, list[list[str] | None], list[list[str] | None]]:
    model = draw(st.sampled_from(MODELS))
    return model, [draw(cuts(model)) for _ in range(2)], [draw(cuts(model)) for _ in range(2)]


def _layout(wanted: Sequence[list[str] | None]) -> Layout:
    return parse(
        f"{index}:{'off' if cut is None else ','.join(cut) or 'empty'}"
        for index, cut in enumerate(wanted)
    )


def _made(directory: str, model: str, before: Sequence[list[str] | None]) -> Path:
    path = Path(directory) / "state"
    state.create(path, model, 3, "550.90.07", "t")
    if models.model(model).mig == "after reset":
        # As after the reboot that such GPUs need: the mode is on, and changes at once in either
        # direction no more.
        state.change(
            path,
            lambda node: replace(
                node, gpus=tuple(replace(g, mig=True, mig_pending=True) for g in node.gpus)
            ),
        )
    for index, cut in enumerate(before):
        if cut is not None:
            state.repartition(path, index, cut)
    state.repartition(path, 2, [models.model(model).slices[0].name])
    return path


def _as_wanted(path: Path, wanted: Sequence[list[str] | None]) -> bool:
    gpus = state.load(path).gpus
    for index, cut in enumerate(wanted):
        gpu = gpus[index]
        mode = (gpu.mig, gpu.mig_pending)
        if cut is None:
            # Ampere keeps its mode until it is reset, but nothing is left on it.
            if gpu.instances or gpu.mig_pending:
                return False
        elif mode != (True, True) or devices(path, index) != Counter(cut):
            return False
    return True


@given(change=changes())
@fixtures_ok
def test_any_layout_is_reached_from_any_other_and_a_second_time_nothing_is_done(
    change: tuple[str, list[list[str] | None], list[list[str] | None]], in_this_process: OnSilicon
) -> None:
    model, before, wanted = change
    with tempfile.TemporaryDirectory() as directory:
        path = _made(directory, model, before)
        other = state.load(path).gpus[2]
        in_this_process(path)
        with partition.opened() as silicon:
            apply(silicon, _layout(wanted))
            assert _as_wanted(path, wanted)
            serial = state.load(path).serial
            if all(g.mig == g.mig_pending for g in state.load(path).gpus):
                assert apply(silicon, _layout(wanted)) == Done(changed=(), waiting={})
        assert state.load(path).serial == serial
        assert state.load(path).gpus[2] == other, "a GPU that the layout does not name was touched"


@given(change=changes(), at=st.integers(1, 60), after=st.booleans())
@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_failing_call_leaves_the_old_or_the_new_layout(
    change: tuple[str, list[list[str] | None], list[list[str] | None]],
    at: int,
    after: bool,
    in_this_process: OnSilicon,
) -> None:
    model, before, wanted = change
    with tempfile.TemporaryDirectory() as directory:
        path = _made(directory, model, before)
        was, other = layouts(path), state.load(path).gpus[2]
        in_this_process(path)
        with partition.opened() as silicon:
            faulty = Faulty(silicon, at, after)
            try:
                apply(faulty, _layout(wanted))
            except (RolledBack, NvmlCallFailed):
                assert layouts(path) == was
            else:
                assert _as_wanted(path, wanted)
        assert state.load(path).gpus[2] == other


CHANGING = [
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlComputeInstanceDestroy",
    "nvmlGpuInstanceDestroy",
]
READING = [
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlGpuInstanceGetComputeInstanceById",
    "nvmlComputeInstanceGetInfo",
    "nvmlDeviceGetComputeRunningProcesses",
]
# From whole to cut, from cut to cut another way, from cut to whole.
WAYS = [((None, None), "0:3g.40gb*2 1:1g.10gb*7"), ((["3g.40gb"], ["1g.10gb"] * 7),
    "0:1c.3g.40gb*3 1:2g.20gb*3"),
        ((["3g.40gb"] * 2, ["7g.80gb"]), "all:off")]  # fmt: skip


@pytest.mark.parametrize("code", [1, 2, 3, 4, 6, 15, 16, 19, 23, 999])
@pytest.mark.parametrize("call", CHANGING + READING)
def test_every_nvml_error_of_every_call_is_survived(
    call: str, code: int, in_this_process: OnSilicon, tmp_path: Path
) -> None:
    for number, (before, layout) in enumerate(WAYS):
        path = tmp_path / str(number)
        state.create(path, "H100-80", 2, "550.90.07", "t")
        for index, cut in enumerate(before):
            if cut:
                state.repartition(path, index, list(cut))
        was = layouts(path)
        in_this_process(path)
        wanted = parse([layout])
        done = False
        with partition.opened() as silicon:
            # Not at the plan's reading, which touches nothing yet: from the first change on.
            planned = transaction.plan(silicon, resolver(wanted))  # type: ignore[misc]
            state.inject(path, state.Injection(call=call, code=code, times=1))
            try:
                transaction.execute(silicon, planned, lambda _: None)
                done = True
            except RolledBack:
                pass
            state.heal(path)
            left = transaction.plan(silicon, resolver(wanted))  # type: ignore[misc]
        assert left.changes is not done, f"{call}: said to be done, and is not"
        assert done or layouts(path) == was, f"{call}: neither as wanted nor as it was"


def test_failed_rollback_names_the_remaining_difference(
    in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 1, "550.90.07", "t")
    state.repartition(path, 0, ["3g.40gb"] * 2)
    state.inject(path, state.Injection(call="nvmlDeviceCreateGpuInstanceWithPlacement", code=999))
    in_this_process(path)
    with partition.opened() as silicon, pytest.raises(RollbackFailed) as broken:
        apply(silicon, parse(["0:1g.10gb*7"]))
    assert "nvmlDeviceCreateGpuInstanceWithPlacement" in str(broken.value)
    assert "GPU 0 is not as before" in str(broken.value)


def test_interrupted_transaction_is_rolled_back(in_this_process: OnSilicon, tmp_path: Path) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 2, "550.90.07", "t")
    state.repartition(path, 1, ["7g.80gb"])
    was = layouts(path)
    in_this_process(path)
    asked = iter([False] * 4 + [True] * 100)
    with partition.opened() as silicon, pytest.raises(RolledBack, match="stop requested"):
        apply(silicon, parse(["all:1g.10gb*7"]), stop=lambda: next(asked))
    assert layouts(path) == was


@pytest.mark.parametrize(
    "trouble",
    [BrokenPipeError, OSError, KeyboardInterrupt, AssertionError],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize("step", [1, 2, 4, 5, 8, 11])
def test_whatever_is_raised_at_whatever_step_all_is_put_back(
    step: int, trouble: type[BaseException], in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 1, "550.90.07", "t")
    state.repartition(path, 0, ["3g.40gb"] * 2)
    was = layouts(path)
    in_this_process(path)
    said = 0

    def say(_: object) -> None:
        nonlocal said
        said += 1
        if said == step:
            raise trouble("it went wrong")

    layout = parse(["0:1g.10gb*7"])
    with partition.opened() as silicon:
        planned = transaction.plan(silicon, resolver(layout))
        with pytest.raises(RolledBack, match=f"{trouble.__name__}: it went wrong"):
            transaction.execute(silicon, planned, say)
    assert said == step
    assert layouts(path) == was


@pytest.mark.parametrize("at", range(13, 26))
def test_failing_rollback_step_is_tried_again(
    at: int, in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 2, "550.90.07", "t")
    for index in range(2):
        state.repartition(path, index, ["3g.40gb"] * 2)
    was = layouts(path)
    in_this_process(path)
    layout = parse(["all:1g.10gb*7"])
    with partition.opened() as silicon:
        planned = transaction.plan(silicon, resolver(layout))
        # The twelfth call is in the middle of GPU 0; what comes after it is to put back.
        first = Faulty(silicon, 12, after=False)
        second = Faulty(
            first, at, after=False, trouble=lambda call, why: ValueError(f"{call}: {why}")
        )
        with pytest.raises(RolledBack, match="injected"):
            transaction.execute(second, planned, lambda _: None)
    assert second.calls > at
    assert layouts(path) == was


def test_matching_instances_stay_with_their_names(
    in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "A100-40", 1, "550.90.07", "t")
    state.repartition(path, 0, ["3g.20gb", "2g.10gb", "1g.5gb"])
    before = {
        c.uuid
        for i in state.load(path).gpus[0].instances
        for c in i.compute_instances
        if i.profile == "3g.20gb"
    }
    in_this_process(path)
    with partition.opened() as silicon:
        apply(silicon, parse(["0:1g.5gb*3,3g.20gb"]))
    after = {c.uuid for i in state.load(path).gpus[0].instances for c in i.compute_instances}
    assert before < after
    assert devices(path, 0) == {"1g.5gb": 3, "3g.20gb": 1}


def test_a_gpu_instance_without_compute_instance_gets_one(
    in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "A100-40", 1, "550.90.07", "t")
    node = state.repartition(path, 0, ["3g.20gb", "3g.20gb"])
    first, second = node.gpus[0].instances
    bare = replace(node.gpus[0], instances=(replace(first, compute_instances=()), second))
    state.change(path, lambda n: replace(n, gpus=(bare,)))
    in_this_process(path)
    with partition.opened() as silicon:
        apply(silicon, parse(["0:3g.20gb*2"]))
    now = state.load(path).gpus[0].instances
    assert {i.serial for i in now} == {first.serial, second.serial}
    assert devices(path, 0) == {"3g.20gb": 2}


def test_processes_block_only_instances_that_would_be_destroyed(
    in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 2, "550.90.07", "t")
    node = state.repartition(path, 0, ["3g.40gb", "3g.40gb"])
    upper = max(node.gpus[0].instances, key=lambda i: i.start)
    state.run_process(path, state.Process(gpu=0, pid=4711, gi=upper.id, ci=0, name="train"))
    in_this_process(path)
    with partition.opened() as silicon:
        apply(silicon, parse([f"0:3g.40gb@{upper.start},1g.10gb*3"]))
        assert devices(path, 0) == {"3g.40gb": 1, "1g.10gb": 3}
        was = layouts(path)
        for layout in ("0:1g.10gb*7", "0:off"):
            with pytest.raises(GpusInUse) as busy:
                apply(silicon, parse([layout]))
            assert [(p.pid, p.name) for p in busy.value.gpus[0]] == [(4711, "train")]
            assert layouts(path) == was
        apply(silicon, parse(["1:3g.40gb*2"]))


def test_a_driver_that_tells_profiles_with_mig_on_only_is_asked_again(
    in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 1, "535.104.05", "t")
    in_this_process(path)
    with partition.opened() as silicon:
        layout = parse(["0:3g.40gb*2"])
        planned = transaction.plan(silicon, resolver(layout))
        assert planned.deferred == (0,)
        apply(silicon, layout)
        assert devices(path, 0) == {"3g.40gb": 2}
        apply(silicon, parse(["0:off"]))
        with pytest.raises(RolledBack, match="the driver allows 2"):
            apply(silicon, parse(["0:3g.40gb*3"]))
    assert layouts(path) == [(False, False, [])]


def test_the_first_impossible_gpu_keeps_all_others_untouched(
    in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 2, "550.90.07", "t")
    was = state.load(path)
    in_this_process(path)
    with (
        partition.opened() as silicon,
        pytest.raises(LayoutImpossible, match=r"GPU 1 .*4g.40gb x2"),
    ):
        apply(silicon, parse(["0:1g.10gb*7", "1:4g.40gb*2"]))
    assert state.load(path) == was


def test_everything_that_goes_goes_before_anything_comes(
    in_this_process: OnSilicon, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 1, "550.90.07", "t")
    state.repartition(path, 0, ["1g.10gb"] * 7)
    in_this_process(path)
    layout = parse(["0:3g.40gb*2"])
    with partition.opened() as silicon:
        todo = transaction.plan(silicon, resolver(layout)).todo[0]
    kinds = [type(step).__name__ for step in todo]
    assert kinds == ["DestroyComputeInstance", "DestroyGpuInstance"] * 7 + ["CreateGpuInstance"] * 2
    assert not any(isinstance(step, SetMigMode) for step in todo)
    assert isinstance(todo[-3], DestroyGpuInstance)
