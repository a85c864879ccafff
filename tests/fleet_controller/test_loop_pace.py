"""The pause after a change grows with what a decision takes."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any, cast

import pytest

from fleet_controller import loop as loop_module
from fleet_controller.loop import Loop
from fleet_controller.observe import Cluster
from kubeapi import Client


class NothingThere:
    """An API server without objects."""

    server = "https://127.0.0.1"

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "items": []}


class FirstPause(threading.Event):
    """Ends the loop at its first pause, and knows how long that was to be."""

    seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        if timeout:
            self.seconds = timeout
            self.set()
        return self.is_set()


@pytest.mark.parametrize(
    ("decision_s", "pause_s"), [(0.001, 0.1), (0.01, 0.1), (0.03, 0.3), (5.0, 1.0)]
)
def test_decisions_take_a_tenth_of_a_processor_at_most_and_wait_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch, decision_s: float, pause_s: float
) -> None:
    cluster = Cluster.of(cast(Client, NothingThere()))
    for each in cluster.followed():
        each.listed.set()
    clock = count()
    monkeypatch.setattr(loop_module.time, "thread_time", lambda: next(clock) * decision_s)
    loop = Loop(cluster)
    cluster.changed.set()
    stop = FirstPause()
    loop.run(stop)
    assert stop.seconds == pytest.approx(pause_s)
