"""A proof on GPUs that nobody holds: they start once, and none is called hung. All times are a
fifth of real ones: eight GPUs that start in three seconds each, against the product's limits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.node_agent.compute.children import Limits
from slicewright.node_agent.compute.prover import Prover
from slicewright.node_agent.compute.warm import started_gpus
from slicewright.node_agent.nvml.cold_start import START_S
from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.compute.conftest import devices_of
from tests.node_agent.conftest import Silicon

GPUS = 8
SCALE = 5
START_MS = round(START_S * 1000 / SCALE)
LIMITS = replace(
    Limits(),
    cold_s=Limits().cold_s / SCALE,
    cold_per_gpu_s=Limits().cold_per_gpu_s / SCALE,
    total_s=Limits().total_s / SCALE,
)


@pytest.fixture
def cold(
    node: Callable[..., Silicon], driver_libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> Silicon:
    """Eight GPUs of seven partitions, without persistence mode."""
    made = node(GPUS, ["1g.10gb"] * 7)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_libraries))
    monkeypatch.setenv(state.VARIABLE, str(made.path))
    for index in range(GPUS):
        state.set_health(made.path, index, persistence=0, start_ms=START_MS)
    return made


@pytest.fixture
def prover(cold: Silicon) -> Iterator[Prover]:
    made = Prover.start(deadline_s=START_S * GPUS / SCALE + 2, limits=LIMITS)
    yield made
    made.close()


def test_every_partition_of_cold_gpus_computes(cold: Silicon, prover: Prover) -> None:
    proof = prover.prove(devices_of(cold))
    assert (proof.outcome, len(proof.devices)) == ("computed", GPUS * 7)
    assert proof.seconds >= GPUS * START_MS / 1000, "they were cold"


def test_gpus_start_once_while_a_process_holds_them(cold: Silicon) -> None:
    began = time.monotonic()
    with started_gpus(60):
        started_s = time.monotonic() - began
        assert cold.observe().failure is None
        looked_s = time.monotonic() - began - started_s
    assert started_s >= GPUS * START_MS / 1000 > looked_s
    began = time.monotonic()
    cold.observe()
    assert time.monotonic() - began >= GPUS * START_MS / 1000, "nobody holds them any more"


def test_without_a_driver_nothing_is_held_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv(state.VARIABLE, str(tmp_path / "none"))
    began = time.monotonic()
    with started_gpus(60):
        assert time.monotonic() - began < 50
