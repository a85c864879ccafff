"""An exception that nobody expected ends nothing but what it happened in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slicewright.fleet_controller.app import causes, loop
from slicewright.fleet_controller.decision import decide
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.warning_event import WarningEvent
from tests.fleet_controller.api_edge import NODES
from tests.fleet_controller.cluster.test_requests import Fleet


class Bug(Exception):
    """Neither of the API server nor of an odd object."""


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Two pools of two nodes, verified by their agents and not yet released."""
    made = Fleet(pools=2, of_a_pool=2)
    made.passes(2)
    made.mig_manager_says("success")
    made.agents_report()
    yield made
    made.loop._lanes.close()


def _failing_for(about: str, works: Callable[..., Any]) -> Callable[..., Any]:
    def fails(*arguments: Any, **more: Any) -> Any:
        if any(getattr(each, "node", getattr(each, "name", "")) == about for each in arguments):
            raise Bug("unexpected \x1b[31m")
        return works(*arguments, **more)

    return fails


def _held(fleet: Fleet) -> set[str]:
    return {name for name, node in fleet.cluster.nodes.all().items() if node.held}


def _turn(fleet: Fleet, times: int = 4) -> None:
    for _ in range(times):
        fleet.edge.shown_to(fleet.cluster)
        fleet.loop.turn()
        fleet.now += 1.0


def test_a_pool_that_cannot_be_decided_is_left_alone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(decide, "decide_pool", _failing_for("p0", decide.decide_pool))
    before = {n: fleet.edge.objects[NODES][n] for n in ("p0-0", "p0-1")}
    _turn(fleet)
    assert _held(fleet) == {"p0-0", "p0-1"}
    assert before == {n: fleet.edge.objects[NODES][n] for n in before}
    assert fleet.loop.progress.faults["pool"] == 4
    (facts, *_) = [r.facts for r in caplog.records if hasattr(r, "facts") and "part" in r.facts]
    assert facts["about"] == "pool p0"
    assert facts["error"] == "Bug: unexpected \\x1b[31m"


def test_an_action_that_fails_unexpectedly_is_counted_and_leaves_the_others_alone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "execute", _failing_for("p0-0", loop.execute))
    _turn(fleet)
    assert _held(fleet) == {"p0-0"}
    assert fleet.loop.progress.faults["action"]
    assert "unexpected error: Bug" in (fleet.loop.progress.error or "")
    monkeypatch.undo()
    _turn(fleet)
    assert not _held(fleet)
    assert fleet.loop.progress.error is None


@pytest.mark.parametrize("part", ["memberships", "to_inspect", "unverified_nodes"])
def test_a_pass_that_fails_unexpectedly_is_tried_again(
    part: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **more: object) -> None:
        raise Bug

    monkeypatch.setattr(loop, part, fails)
    _turn(fleet, 2)
    assert fleet.loop.progress.faults["pass"] == 2
    assert fleet.loop.progress.error == "unexpected error: Bug: "
    monkeypatch.undo()
    _turn(fleet)
    assert not _held(fleet)


def test_a_question_that_fails_unexpectedly_only_costs_its_answer(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = Fleet(pools=1, of_a_pool=1)

    def fails(*arguments: object) -> None:
        raise Bug

    monkeypatch.setattr(causes.absent_agents, "reasons", fails)
    _turn(quiet, 2)
    assert quiet.loop.progress.faults == {"pass": 0, "pool": 0, "action": 0, "question": 1}
    assert quiet.loop.progress.error is None


def test_unexpected_lists_are_read_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(path: str, **query: str) -> dict[str, Any]:
        return {"items": []}

    monkeypatch.setattr(fleet.edge, "get", odd)
    assert not fleet.loop._catch_up()
    assert fleet.loop.progress.faults["pass"] == 1
    monkeypatch.undo()
    assert fleet.loop._catch_up()


def test_the_pool_of_a_fault_keeps_its_warnings(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, pool: Pool
) -> None:
    monkeypatch.setattr(decide, "decide_pool", _failing_for("halves", decide.decide_pool))
    warning = WarningEvent(name=f"halves.{'0' * 16}", last_seen=fleet.now)
    decision = decide.decide([pool], [], {}, {}, {warning.name: warning}, fleet.now)
    assert decision.actions == ()
    assert [fault.subject for fault in decision.faults] == ["pool halves"]
