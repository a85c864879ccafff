"""Actions on one object keep their order, those on different ones run side by side, at a pace."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.fleet_controller.cluster import lanes as lanes_module
from slicewright.fleet_controller.cluster.lanes import (
    LONGEST_SLICE_S,
    PER_SECOND,
    SLICE_S,
    WORKERS,
    Lanes,
    Outcome,
    Pace,
)
from slicewright.fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    EmitEvent,
    RecordBoot,
    RemoveStartupTaint,
    RetractEvent,
    SetPoolStatus,
)
from slicewright.fleet_controller.rollout.change_actions import EvictPod
from tests.properties import examples


def _record(node: str) -> RecordBoot:
    return RecordBoot(node=node, boot_id="b", layout=None)


def _lift(node: str) -> RemoveStartupTaint:
    return RemoveStartupTaint(node=node, position=0, boot_id="b", layout=None)


def _hold(node: str) -> AddStartupTaint:
    return AddStartupTaint(node=node, version="1", has_taints=False, why="w")


def _evict(node: str, pod: str) -> EvictPod:
    return EvictPod(node=node, namespace="ai", pod=pod, uid=pod)


def _status(pool: str, settled: str = "True") -> SetPoolStatus:
    conditions = [{"type": "Verified", "status": "True"}, {"type": "Settled", "status": settled}]
    return SetPoolStatus(pool=pool, status={"conditions": conditions})


def _event(name: str) -> EmitEvent:
    return EmitEvent(name=name, pool="p", pool_uid="u", reason="R", message="m", now=1.0)


@dataclass
class Hands:
    """Writes down what is done, and what of it has failed."""

    done: list[Action] = field(default_factory=list)
    fails: set[int] = field(default_factory=set)
    """`id` of actions."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    may: bool = True
    now: float = 100.0
    takes_s: float = 0.0
    waited: list[float] = field(default_factory=list)

    def do(self, action: Action) -> str | None:
        with self.lock:
            self.done.append(action)
            self.now += self.takes_s
        return "it failed" if id(action) in self.fails else None

    def lanes(self) -> Lanes:
        return Lanes(
            self.do, go_on=lambda: self.may, clock=lambda: self.now, wait=self.waited.append
        )

    def carry_out(self, actions: Sequence[Action]) -> Outcome:
        with closing(self.lanes()) as lanes:
            return lanes.carry_out(actions)


_actions = st.lists(
    st.one_of(
        st.sampled_from("abc").map(_record),
        st.sampled_from("abc").map(_lift),
        st.sampled_from("abc").map(_hold),
        st.builds(_evict, st.sampled_from("abc"), st.sampled_from("xyz")),
        st.sampled_from("pq").map(_status),
        st.sampled_from("ef").map(_event),
        st.sampled_from("ef").map(lambda name: RetractEvent(name=name)),
    ),
    max_size=25,
)


def _of(actions: Sequence[Action], node: str) -> list[int]:
    return [
        id(action)
        for action in actions
        if getattr(action, "node", "") == node and not isinstance(action, AddStartupTaint)
    ]


@settings(max_examples=examples(200), deadline=None)
@given(actions=_actions)
def test_all_are_done_once_and_those_of_a_node_in_their_order(actions: list[Action]) -> None:
    hands = Hands()
    assert hands.carry_out(actions) == Outcome(failed={}, postponed=0)
    assert sorted(map(id, hands.done)) == sorted(map(id, actions))
    for node in "abc":
        assert _of(hands.done, node) == _of(actions, node)


@settings(max_examples=examples(200), deadline=None)
@given(actions=_actions)
def test_taints_come_first_and_pool_status_and_events_last(actions: list[Action]) -> None:
    def stage(action: Action) -> int:
        if isinstance(action, AddStartupTaint):
            return 0
        if isinstance(action, SetPoolStatus):
            return 2
        return 3 if isinstance(action, EmitEvent | RetractEvent) else 1

    hands = Hands()
    hands.carry_out(actions)
    stages = [stage(action) for action in hands.done]
    assert stages == sorted(stages)


def test_released_nodes_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """While 256 nodes join, a busy API server takes seconds to be told that they have no report."""
    monkeypatch.setattr(lanes_module, "WORKERS", 1)
    hands = Hands()
    hands.carry_out([_record("a"), _evict("b", "x"), _record("c"), _lift("c")])
    assert hands.done == [_record("c"), _lift("c"), _record("a"), _evict("b", "x")]


def test_different_nodes_are_seen_to_side_by_side() -> None:
    """Each waits for all the others: done one after the other, they would wait for ever."""
    together = threading.Barrier(WORKERS)

    def do(_: Action) -> str | None:
        together.wait(timeout=60)
        return None

    with closing(Lanes(do, go_on=lambda: True)) as lanes:
        lanes.carry_out([_record(f"n{i}") for i in range(WORKERS)])


def test_two_nodes_are_enough_for_that() -> None:
    together = threading.Barrier(2)

    def do(_: Action) -> str | None:
        together.wait(timeout=60)
        return None

    with closing(Lanes(do, go_on=lambda: True)) as lanes:
        lanes.carry_out([_record("a"), _record("b")])


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("lane_")}


def test_one_node_alone_needs_no_thread_and_at_the_end_there_is_none_left() -> None:
    seen: list[set[str]] = []

    def do(_: Action) -> str | None:
        seen.append(_threads())
        return None

    before = _threads()
    with closing(Lanes(do, go_on=lambda: True)) as lanes:
        lanes.carry_out([_record("a"), _lift("a")])
        assert seen == [before, before]
        lanes.carry_out([_record("a"), _record("b")])
        assert seen[-1] > before
    assert _threads() == before


def test_thousands_of_nodes_are_no_thousands_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[object] = []
    submit = ThreadPoolExecutor.submit

    def counted(self: ThreadPoolExecutor, *args: Any) -> Future[Any]:
        tasks.append(args)
        return submit(self, *args)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    Hands().carry_out([_record(f"n{i}") for i in range(WORKERS + 1)])
    assert len(tasks) == WORKERS


def test_after_a_failure_the_rest_of_its_object_is_left_and_no_other() -> None:
    broken = _record("a")
    actions = [broken, _lift("a"), _record("b"), _lift("b")]
    hands = Hands(fails={id(broken)})
    outcome = hands.carry_out(actions)
    assert outcome == Outcome(failed={"node a": "it failed"}, postponed=0)
    assert {id(action) for action in hands.done} == {id(a) for a in actions if a is not actions[1]}


def test_the_eviction_of_one_pod_fails_for_that_pod_only() -> None:
    first, again, second = _evict("a", "x"), _evict("a", "x"), _evict("a", "y")
    hands = Hands(fails={id(first)})
    assert hands.carry_out([first, again, second]).failed == {"pod ai/x": "it failed"}
    assert [id(action) for action in hands.done] == [id(first), id(second)]


class TestTheEndOfAPass:
    @pytest.fixture
    def hands(self) -> Hands:
        return Hands(takes_s=SLICE_S)

    def test_after_a_while_what_is_left_is_decided_again(self, hands: Hands) -> None:
        outcome = hands.carry_out([_record("a"), _lift("a")])
        assert (outcome.postponed, hands.done) == (1, [_record("a")])

    def test_how_long_that_is_the_caller_says(self, hands: Hands) -> None:
        with closing(hands.lanes()) as lanes:
            outcome = lanes.carry_out([_record("a"), _lift("a"), _record("a")], slice_s=3.0)
        assert (outcome.postponed, hands.done) == (1, [_record("a"), _lift("a")])

    def test_a_node_that_must_be_held_is_held_however_long_it_takes(self, hands: Hands) -> None:
        hands.carry_out([_hold("a"), _hold("a"), _record("b")])
        assert hands.done == [_hold("a"), _hold("a")]

    def test_settled_is_not_written_while_actions_on_nodes_are_postponed(
        self, hands: Hands
    ) -> None:
        """`pulumi up` would return though nodes still have the startup taint."""
        actions = [_record("a"), _lift("a"), _status("p"), _status("q", settled="False")]
        hands.carry_out(actions)
        assert hands.done == [_record("a"), _status("q", settled="False")]

    def test_a_pool_whose_status_says_nothing_of_it_is_not_settled(self, hands: Hands) -> None:
        empty = SetPoolStatus(pool="p", status={})
        hands.carry_out([_record("a"), _lift("a"), empty])
        assert hands.done == [_record("a"), empty]

    def test_who_may_not_go_on_does_nothing_more(self) -> None:
        hands = Hands(may=False)
        assert hands.carry_out([_hold("a"), _record("b"), _status("p")]).postponed == 2
        assert hands.done == []


def test_whoever_waits_for_his_turn_does_nothing_once_another_has_stopped_all() -> None:
    hands = Hands()
    lanes = Lanes(
        hands.do,
        go_on=lambda: hands.may,
        clock=lambda: hands.now,
        wait=lambda _: setattr(hands, "may", False),
    )
    with closing(lanes):
        outcome = lanes.carry_out([_record("a")] * 251)
    assert (outcome.postponed, len(hands.done)) == (1, 250)


def test_at_most_so_many_begin_in_a_second_after_a_first_burst() -> None:
    now = 50.0
    pace = Pace(10.0, clock=lambda: now)
    waits = [pace.take() for _ in range(30)]
    assert waits[:10] == [0.0] * 10
    assert waits[10:] == pytest.approx([(i + 1) / 10 for i in range(20)])
    now += 2.0
    assert pace.take() == pytest.approx(0.1), "those that wait have their tokens"
    now += 1000.0
    assert [pace.take() for _ in range(11)] == pytest.approx([0.0] * 10 + [0.1])


def test_the_reference_tells_the_pace() -> None:
    page = " ".join(Path("docs/reference/controller.md").read_text().split())
    assert f"{WORKERS} at a time, and {PER_SECOND:.0f} requests a second at most" in page
    words = {2.0: "two", 5.0: "five"}
    assert f"After {words[SLICE_S]} seconds, or up to {words[LONGEST_SLICE_S]} where" in page


def test_every_action_waits_for_its_token() -> None:
    hands = Hands()
    hands.carry_out([_record("a")] * 300)
    assert len(hands.waited) == 50, "the first 250 need not wait"
    assert all(waited > 0 for waited in hands.waited)
