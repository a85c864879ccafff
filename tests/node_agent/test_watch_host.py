"""The loop on a host without a cluster, when GPUs go and come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node_agent.layout import parse
from node_agent.nvml.observed import Observation
from node_agent.reporting.health import Health
from node_agent.reporting.metrics import Metrics
from node_agent.verdict.verify import desired_of
from node_agent.watch import Pace, watch_host
from rehearsal.cluster.silicon import state
from telemetry import log


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What is logged."""
    lines: list[tuple[str, dict[str, Any]]] = []
    for level in ("info", "warning"):
        monkeypatch.setattr(log, level, lambda event, /, **facts: lines.append((event, facts)))
    return lines


@contextmanager
def _watching(node: Any, layout: str) -> Iterator[Metrics]:
    prober = node.prober()
    numbers, stop = Metrics(desired_of({}, Observation())), threading.Event()
    health = Health(stall_after_s=30, stale_after_s=5)
    options: dict[str, Any] = {
        "numbers": numbers,
        "health": health,
        "pace": Pace(interval_s=0.05),
        "stop": stop,
    }
    thread = threading.Thread(
        target=watch_host,
        args=(parse([layout]), prober),
        kwargs={**options, "kernel_log": Path("/nowhere")},
    )
    thread.start()
    try:
        yield numbers
    finally:
        stop.set()
        thread.join(timeout=30)
        prober.close()
        assert not thread.is_alive()


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def _looks_on(numbers: Metrics) -> None:
    looks = numbers._count
    _until(lambda: numbers._count >= looks + 4, "some more looks")


def test_a_lost_gpu_named_by_its_uuid_is_warned_of_once(
    halves: Any, said: list[tuple[str, dict[str, Any]]]
) -> None:
    uuid = state.load(halves.path).gpus[1].uuid
    with _watching(halves, f"{uuid}:3g.40gb*2") as numbers:
        _until(lambda: 'slicewright_verdict{verdict="Match"} 1' in numbers.text, "a match")
        for times in (1, 2):
            state.lose(halves.path, 1)
            _until(lambda: 'slicewright_mismatch{reason="GpuLost"} 1' in numbers.text, "lost")
            _looks_on(numbers)
            warned = [facts["problem"] for event, facts in said if event == "layout"]
            assert warned == [f"{uuid}: no such GPU; this machine has GPU 0, 1"] * times
            state.reboot(halves.path)
            state.recut(halves.path, 1, ["3g.40gb", "3g.40gb"])
            _until(
                lambda: 'slicewright_verdict{verdict="Match"} 1' in numbers.text, "a match again"
            )


@pytest.mark.parametrize("layout", ["all:3g.40gb*2", "0:off"])
def test_a_machine_that_shows_no_gpu_never_matches(
    layout: str, halves: Any, said: list[tuple[str, dict[str, Any]]]
) -> None:
    state.change(halves.path, lambda node: replace(node, gpus=()))
    with _watching(halves, layout) as numbers:
        _until(lambda: 'slicewright_mismatch{reason="WrongGpuCount"} 1' in numbers.text, "found")
        _looks_on(numbers)
        assert 'slicewright_verdict{verdict="Match"} 1' not in numbers.text
    (verdict,) = [facts for event, facts in said if event == "verdict"]
    assert verdict["message"].startswith(
        f"node wanted {layout}, found 0 GPUs, none of them named: "
    )
