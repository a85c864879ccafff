"""After a change the loop waits the longer the more a decision takes; while it has to act, not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from slicewright.fleet_controller.app import loop as loop_module
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cluster.lanes import Outcome
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.decision.actions import Action
from slicewright.kubeapi import Client


class NothingThere:
    """An API server without objects."""

    server = "https://127.0.0.1"

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "items": []}


class UntilAfterAPass(threading.Event):
    """Ends the loop when it has waited after its first pass."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        if len(self.waited) == 1:
            self.set()
        return self.is_set()


class Watch:
    """The clocks of a pass: its decision takes `decision_s`, its actions `actions_s`."""

    def __init__(self, decision_s: float, actions_s: float, left: int) -> None:
        self._decision_s, self._actions_s, self._left = decision_s, actions_s, left
        self._now = self._used = 1000.0
        self.slices: list[float] = []

    def thread_time(self) -> float:
        self._used += self._decision_s
        return self._used

    def monotonic(self) -> float:
        return self._now

    def carry_out(self, actions: Sequence[Action], *, slice_s: float) -> Outcome:
        self._now += self._actions_s
        self.slices.append(slice_s)
        return Outcome(failed={}, postponed=self._left)


@pytest.mark.parametrize(
    ("decision_s", "actions_s", "left", "rest_s"),
    [
        (0.001, 0.0, 0, 0.1),
        (0.003, 0.0, 0, 0.1),
        (0.006, 0.0, 0, 0.2),
        (0.006, 0.15, 0, 0.1),
        (5.0, 0.0, 0, 2.0),
        (5.0, 0.4, 0, 1.6),
        (5.0, 0.4, 7, 1.6),
        (5.0, 1.95, 0, 0.1),
        (5.0, 3.0, 0, 0.1),
        (5.0, 3.0, 7, 0.0),
    ],
)
def test_decisions_take_three_hundredths_of_a_processor_at_most_and_two_seconds_at_most_are_waited(
    monkeypatch: pytest.MonkeyPatch, decision_s: float, actions_s: float, left: int, rest_s: float
) -> None:
    watch = Watch(decision_s, actions_s, left)
    assert _waited_in_a_pass(monkeypatch, watch) == [pytest.approx(rest_s)]


@pytest.mark.parametrize(
    ("decision_s", "slice_s"), [(0.001, 2.0), (0.02, 2.0), (0.03, 3.0), (0.05, 5.0), (1.0, 5.0)]
)
def test_a_pass_acts_for_a_hundred_times_what_its_decision_took_but_for_two_to_five_seconds(
    monkeypatch: pytest.MonkeyPatch, decision_s: float, slice_s: float
) -> None:
    watch = Watch(decision_s, 0.0, 0)
    _waited_in_a_pass(monkeypatch, watch)
    assert watch.slices == [pytest.approx(slice_s)]


def _waited_in_a_pass(monkeypatch: pytest.MonkeyPatch, watch: Watch) -> list[float | None]:
    cluster = Cluster.for_client(cast(Client, NothingThere()))
    for each in cluster.followed():
        each.listed.set()
    monkeypatch.setattr(loop_module.time, "thread_time", watch.thread_time)
    monkeypatch.setattr(loop_module.time, "monotonic", watch.monotonic)
    loop = Loop(cluster)
    monkeypatch.setattr(loop._lanes, "carry_out", watch.carry_out)
    cluster.changed.set()
    stop = UntilAfterAPass()
    loop.run(stop)
    return stop.waited
