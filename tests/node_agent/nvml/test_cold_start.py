"""A driver that has to start its GPUs is waited for, and one that hangs is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.desired_state import Desired, DesiredGpu, dump
from slicewright.node_agent import cli
from slicewright.node_agent.commands.exit_codes import MISMATCH, OK, UNKNOWN
from slicewright.node_agent.nvml import cold_start
from slicewright.node_agent.nvml.cold_start import START_S, with_cold_start
from slicewright.node_agent.nvml.prober import Prober
from slicewright.rehearsal.cluster.silicon import state
from tests.properties import examples

MakeSilicon = Callable[..., Any]


def _desired(gpus: int) -> Desired:
    return Desired(
        pool="p",
        partitioner="none",
        gpu_count=gpus,
        gpu_models=("Tesla T4",),
        gpus=(DesiredGpu(index="all", mig=False),),
        resources={"nvidia.com/gpu": gpus},
    )


@pytest.fixture
def desired_file(tmp_path: Path) -> Callable[[int], Path]:
    def write(gpus: int) -> Path:
        path = tmp_path / "desired.json"
        path.write_text(dump(_desired(gpus)))
        return path

    return write


def _cool(node: Any, *, gpus: int, start_ms: int) -> None:
    for index in range(gpus):
        state.set_health(node.path, index, persistence=0, start_ms=start_ms)


def test_eight_gpus_that_start_for_longer_than_the_deadline_are_judged(
    silicon: MakeSilicon, command: Callable[..., Any], desired_file: Callable[[int], Path]
) -> None:
    """As 24 s of eight GPUs against 20 s."""
    node = silicon("T4", 8)
    _cool(node, gpus=8, start_ms=200)
    arguments = ("verify", "--desired", str(desired_file(8)), "--silicon-only")
    began = time.monotonic()
    ended = command(node, *arguments, "--deadline", "1")
    assert time.monotonic() - began > 1.6, "it was cold"
    assert ended.returncode == OK, ended.stdout
    state.set_health(node.path, 3, compute_mode=2)
    assert command(node, *arguments, "--deadline", "1").returncode == MISMATCH


def test_a_driver_that_hangs_is_given_up_after_the_time_for_a_cold_start(
    silicon: MakeSilicon, command: Callable[..., Any], desired_file: Callable[[int], Path]
) -> None:
    node = silicon("T4", 1)
    state.inject(node.path, state.Injection(call="nvmlDeviceGetHandleByIndex", delay_ms=3_600_000))
    ended = command(
        node, "verify", "--desired", str(desired_file(1)), "--silicon-only", "--deadline", "1"
    )
    assert ended.returncode == UNKNOWN
    assert "DriverHung" in ended.stdout
    assert "no answer from the driver within 4 s" in ended.stdout


def test_a_warm_driver_costs_no_time(
    silicon: MakeSilicon, command: Callable[..., Any], desired_file: Callable[[int], Path]
) -> None:
    node = silicon("T4", 8)
    for index in range(8):
        state.set_health(node.path, index, start_ms=60_000)
    ended = command(node, "verify", "--desired", str(desired_file(8)), "--silicon-only")
    assert ended.returncode == OK, ended.stdout


class _Started(Exception):
    """The prober would have been started."""


def test_the_agent_of_a_pool_waits_for_all_gpus_of_its_nodes(
    desired_file: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_NAME", "n1")
    deadlines: list[float] = []

    def start(*, deadline_s: float, **_: object) -> Prober:
        deadlines.append(deadline_s)
        raise _Started

    monkeypatch.setattr(Prober, "start", start)
    with pytest.raises(_Started):
        cli.main(["watch", "--desired", str(desired_file(8))])
    assert deadlines == [20.0 + 8 * START_S]


def test_the_gpus_of_a_host_are_those_of_its_driver(tmp_path: Path) -> None:
    for bus in ("0000:1b:00.0", "0000:43:00.0"):
        (tmp_path / bus).mkdir()
    assert with_cold_start(20.0, 0, tmp_path) == 26.0
    assert with_cold_start(20.0, 8, tmp_path) == 44.0
    assert with_cold_start(20.0, 0, tmp_path / "no driver") == 20.0
    assert str(cold_start.DRIVERS_GPUS) == "/proc/driver/nvidia/gpus"


@given(deadline_s=st.floats(0.1, 3600), gpus=st.integers(1, 16), each_s=st.floats(0.0, 3.0))
@settings(max_examples=examples(100))
def test_no_ordinary_start_of_any_number_of_gpus_uses_up_the_deadline(
    deadline_s: float, gpus: int, each_s: float
) -> None:
    assert with_cold_start(deadline_s, gpus) - gpus * each_s >= deadline_s * (1 - 1e-9)
