"""A question is asked beside the passes: none of them waits for its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from slicewright.fleet_controller.cluster.background_query import BackgroundQuery

HOUR_S = 3600.0


class Asked:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.changed = threading.Semaphore(0)

    def answering(self, answer: str | None) -> Callable[[], str | None]:
        def ask() -> str | None:
            self.begun.release()
            assert self.go_on.acquire(timeout=60)
            return answer

        return ask


@pytest.fixture
def asked() -> Asked:
    return Asked()


def _ended(query: BackgroundQuery[str]) -> None:
    assert query._thread is not None
    query._thread.join(60)
    assert not query._thread.is_alive()


def test_no_answer_is_waited_for_and_another_one_wakes(asked: Asked) -> None:
    query = BackgroundQuery[str](asked.changed.release, every_s=0.0)
    assert query.latest(asked.answering("a")) is None
    assert asked.begun.acquire(timeout=60)
    # One question at a time.
    assert query.latest(asked.answering("b")) is None
    assert not asked.changed.acquire(blocking=False)
    asked.go_on.release()
    assert asked.changed.acquire(timeout=60)
    _ended(query)
    assert not asked.begun.acquire(blocking=False)
    assert query.latest(asked.answering("a")) == "a"
    asked.go_on.release()
    _ended(query)
    assert not asked.changed.acquire(blocking=False), "the same answer is no news"


def test_question_is_not_repeated_before_its_interval(asked: Asked) -> None:
    query = BackgroundQuery[str](asked.changed.release, every_s=HOUR_S)
    asked.go_on.release()
    query.latest(asked.answering("a"))
    _ended(query)
    assert query.latest(asked.answering("b")) == "a"
    _ended(query)
    assert asked.begun.acquire(blocking=False)
    assert not asked.begun.acquire(blocking=False)


def test_without_an_answer_the_one_before_stays(asked: Asked) -> None:
    query = BackgroundQuery[str](asked.changed.release, every_s=0.0)
    for answer in ("a", None):
        asked.go_on.release()
        query.latest(asked.answering(answer))
        _ended(query)
    asked.go_on.release()
    assert query.latest(asked.answering("a")) == "a"
    _ended(query)
