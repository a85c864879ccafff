"""The loop on a host without a cluster, when GPUs go and come back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.layout import parse
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.reporting.health import Health
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.verdict.verify import desired_of
from slicewright.node_agent.watch import HostWatch, Pace, run
from slicewright.rehearsal.cluster.silicon import state
from slicewright.telemetry import log
from tests.node_agent.clocks import Clocks

MATCH = 'slicewright_verdict{verdict="Match"} 1'
Logged = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Logged:
    lines: Logged = []
    for level in ("info", "warning"):
        monkeypatch.setattr(log, level, lambda event, /, **facts: lines.append((event, facts)))
    return lines


@dataclass
class Agent:
    loop: HostWatch
    clocks: Clocks
    metrics: Metrics

    def turns(self, count: int = 1) -> None:
        for _ in range(count):
            self.clocks.sleep(self.loop.turn())


@contextmanager
def _watching(node: Any, layout: str, clocks: Clocks) -> Iterator[Agent]:
    prober = node.prober()
    metrics = Metrics(desired_of({}, Observation()))
    loop = HostWatch(
        parse([layout]),
        prober,
        metrics=metrics,
        health=Health(stall_after_s=30, stale_after_s=30, clock=clocks.monotonic),
        pace=Pace(),
        clock=clocks.clock(),
        kernel_log=Path("/nowhere"),
    )
    try:
        yield Agent(loop, clocks, metrics)
    finally:
        loop.close()
        prober.close()


def test_a_lost_gpu_named_by_its_uuid_is_warned_of_once(
    halves: Any, clocks: Clocks, logged: Logged
) -> None:
    uuid = state.load(halves.path).gpus[1].uuid
    with _watching(halves, f"{uuid}:3g.40gb*2", clocks) as agent:
        agent.turns()
        assert MATCH in agent.metrics.text
        for times in (1, 2):
            state.lose(halves.path, 1)
            agent.turns(4)
            assert 'slicewright_mismatch{reason="GpuLost"} 1' in agent.metrics.text
            warned = [facts["problem"] for event, facts in logged if event == "layout"]
            assert warned == [f"{uuid}: no such GPU; this machine has GPU 0, 1"] * times
            state.reboot(halves.path)
            state.repartition(halves.path, 1, ["3g.40gb", "3g.40gb"])
            agent.turns()
            assert MATCH in agent.metrics.text


@pytest.mark.parametrize("layout", ["all:3g.40gb*2", "0:off"])
def test_a_machine_that_shows_no_gpu_never_matches(
    layout: str, halves: Any, clocks: Clocks, logged: Logged
) -> None:
    state.change(halves.path, lambda node: replace(node, gpus=()))
    with _watching(halves, layout, clocks) as agent:
        for _ in range(5):
            agent.turns()
            assert 'slicewright_mismatch{reason="WrongGpuCount"} 1' in agent.metrics.text
            assert MATCH not in agent.metrics.text
    (verdict,) = [facts for event, facts in logged if event == "verdict"]
    assert verdict["message"].startswith(
        f"host wanted {layout}, found 0 GPUs, none of them named: "
    )


def test_garbage_is_collected_from_the_first_turn_on_and_waiters_are_notified() -> None:
    stop, judged = threading.Event(), threading.Event()
    seen: list[tuple[bool, bool]] = []

    class Loop:
        def turn(self) -> float:
            seen.append((gc.isenabled(), judged.is_set()))
            if len(seen) == 2:
                stop.set()
            return 0.0

        def close(self) -> None:
            seen.append((gc.isenabled(), judged.is_set()))

    gc.disable()
    try:
        run(Loop(), stop, judged)
    finally:
        gc.enable()
        gc.unfreeze()
    assert seen == [(True, False), (True, True), (True, True)]
