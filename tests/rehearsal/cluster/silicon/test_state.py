"""The state file: Python and C read what either has written, and invalid files are named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.rehearsal.cluster.silicon import models, node_silicon, placement, state
from tests.properties import examples

_MIG_MODELS = sorted(key for key, kind in models.models().items() if kind.mig != "none")


@st.composite
def _layouts(draw: st.DrawFn) -> tuple[str, list[str]]:
    key = draw(st.sampled_from(_MIG_MODELS))
    names = [s.name for s in models.model(key).slices]
    return key, draw(st.lists(st.sampled_from(names), max_size=7))


@settings(max_examples=examples(60), deadline=None)
@given(_layouts())
def test_profiles_that_fit_are_created_and_read_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, layout: tuple[str, list[str]]
) -> None:
    key, names = layout
    path = tmp_path_factory.mktemp("state") / "state"
    state.create(path, key, 1, "580.65.06", "seed")
    try:
        made = state.repartition(path, 0, names)
    except placement.NoRoom:
        assert state.load(path).gpus[0].instances == ()
        return
    assert made.gpus[0].profiles == tuple(sorted(names))
    assert state.load(path) == made
    taken = [
        slot for gi in made.gpus[0].instances for slot in range(gi.start, gi.start + gi.slice.size)
    ]
    assert len(taken) == len(set(taken))
    assert len({gi.id for gi in made.gpus[0].instances}) == len(names)


@settings(max_examples=examples(25), deadline=None)
@given(_layouts())
def test_c_reads_and_writes_the_same_state_as_python(
    tmp_path_factory: pytest.TempPathFactory, bound: Any, layout: tuple[str, list[str]]
) -> None:
    key, names = layout
    path = tmp_path_factory.mktemp("state") / "state"
    state.create(path, key, 2, "580.65.06", "seed")
    try:
        state.repartition(path, 1, names)
    except placement.NoRoom:
        return
    state.set_health(path, 1, temperature_c=70, energy_mj=123456789012)
    state.record_xid(path, 0, 48)
    state.run_process(path, state.Process(gpu=0, pid=5, name="a program"))
    state.set_load(path, state.Load(gpu=1, gi=3, sm=50, dram=7))
    state.inject(path, state.Injection(call="nvmlDeviceGetIndex", gpu=1, code=0, times=1))
    before = state.load(path)
    os.environ[state.VARIABLE] = str(path)
    bound.nvmlInit()
    try:
        # Counting the fault down makes C write the file.
        bound.nvmlDeviceGetIndex(bound.nvmlDeviceGetHandleByIndex(1))
    finally:
        bound.nvmlShutdown()
    after = state.load(path)
    assert [i.times for i in after.injections] == [0]
    assert node_silicon.dump(after).replace("times=0", "times=1") == node_silicon.dump(before)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a silicon state file of this version"),
        ("slicewright-silicon 2\n", "not a silicon state file of this version"),
        ("slicewright-silicon 1\nnode driver=1 cuda=1 seed=s serial=0\ngpu index=0\n", "'model'"),
        (
            "slicewright-silicon 1\nnode driver=1 cuda=1 seed=s serial=0\nwhat is=this\n",
            "line 3 is invalid",
        ),
        ("slicewright-silicon 1\nnode driver=1 cuda=x seed=s serial=0\n", "invalid literal"),
        ("slicewright-silicon 1\nhealth gpu=0 mood=1\n", "unknown health value mood"),
    ],
)
def test_an_invalid_file_is_named_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "state"
    path.write_text(text)
    with pytest.raises(state.BadState, match=reason) as raised:
        state.load(path)
    assert str(path) in str(raised.value)


def test_recut_refuses_what_the_gpu_does_not_have_and_changes_nothing(make_state: Any) -> None:
    path = make_state()
    before = path.read_text()
    with pytest.raises(KeyError, match=r"no profile 1g\.5gb; it has 1g\.10gb"):
        state.repartition(path, 0, ["1g.5gb"])
    with pytest.raises(placement.NoRoom, match="do not fit on one NVIDIA H100 80GB HBM3 together"):
        state.repartition(path, 0, ["4g.40gb", "4g.40gb"])
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("model", "count", "seed"),
    [("H100-80", 0, "s"), ("H100-80", 17, "s"), ("H100-80", 1, "a b"), ("H100", 1, "s")],
)
def test_impossible_nodes_are_refused(tmp_path: Path, model: str, count: int, seed: str) -> None:
    with pytest.raises((ValueError, models.UnknownModel)):
        state.create(tmp_path / "state", model, count, "550.90.07", seed)


def test_only_the_files_of_a_state_are_left_behind(make_state: Any) -> None:
    path = make_state()
    state.repartition(path, 0, ["3g.40gb"])
    assert sorted(p.name for p in path.parent.iterdir()) == ["state", "state.clients", "state.lock"]
    assert path.stat().st_mode & 0o777 == 0o644
