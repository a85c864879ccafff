"""Continuous batching without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.rehearsal.cluster.model_server.engine import Engine

requests = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=12)


@given(requests, st.integers(1, 4), st.lists(st.floats(0, 0.5), max_size=30))
def test_it_never_makes_more_than_the_time_allows_and_never_runs_too_many(
    asked: list[tuple[int, int]], most: int, steps: list[float]
) -> None:
    engine = Engine(100.0, most)
    all_of_them = [engine.submit(prompt_tokens=p, answer_tokens=w) for p, w in asked]
    passed = 0.0
    for step in steps:
        engine.advance(step)
        passed += step
        assert len(engine.running) <= most
        assert sum(one.generated for one in all_of_them) <= passed * 100 + 1e-6
        assert all(one.generated <= one.answer_tokens for one in all_of_them)
        assert not engine.waiting or len(engine.running) == most


@given(requests, st.integers(1, 4))
def test_every_request_gets_all_its_tokens_in_the_end(
    asked: list[tuple[int, int]], most: int
) -> None:
    engine = Engine(100.0, most)
    all_of_them = [engine.submit(prompt_tokens=p, answer_tokens=w) for p, w in asked]
    for _ in range(1000):
        engine.advance(0.1)
    assert all(one.done for one in all_of_them)
    assert engine.idle


def test_those_that_run_share_the_tokens_and_the_rest_waits() -> None:
    engine = Engine(100.0, 2)
    first, second, third = (engine.submit(prompt_tokens=20, answer_tokens=100) for _ in range(3))
    engine.advance(0.12)  # two prompts cost a token each
    assert [one.generated for one in (first, second, third)] == [5, 5, 0]
    assert (len(engine.running), len(engine.waiting)) == (2, 1)


def test_who_has_gone_makes_room() -> None:
    engine = Engine(100.0, 1)
    first, second = (engine.submit(prompt_tokens=1, answer_tokens=10) for _ in range(2))
    engine.abort(first)
    engine.advance(1.0)
    assert (first.generated, second.done) == (0, True)


def test_idle_time_is_not_saved_up() -> None:
    engine = Engine(100.0, 1)
    engine.advance(60.0)
    one = engine.submit(prompt_tokens=20, answer_tokens=1000)
    engine.advance(0.11)
    assert one.generated == pytest.approx(10, abs=1)


def test_twice_the_speed_makes_twice_the_tokens() -> None:
    made = []
    for speed in (320.0, 1200.0):
        engine = Engine(speed, 8)
        asked = [engine.submit(prompt_tokens=20, answer_tokens=10_000) for _ in range(8)]
        for _ in range(100):
            engine.advance(0.01)
        made.append(sum(one.generated for one in asked))
    assert made[1] / made[0] == pytest.approx(1200 / 320, rel=0.05)


def test_memory_holds_what_was_read_and_generated_of_the_requests_that_run() -> None:
    engine = Engine(100.0, 1)
    assert engine.held_tokens == 0
    engine.submit(prompt_tokens=40, answer_tokens=10)
    engine.submit(prompt_tokens=400, answer_tokens=10)
    engine.advance(0.01)
    assert engine.held_tokens == 20, "half of the first prompt; the second waits"
    engine.advance(0.03)
    assert engine.held_tokens == 42
    engine.advance(10)
    assert engine.held_tokens == 0
