"""A signal ends a process whatever its main thread is in the middle of."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slicewright.telemetry.signals import at_signal

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


def _ends(handler: Callable[[], Any]) -> bool:
    """Whether it comes to an end: one that waits for itself does not."""
    thread = threading.Thread(target=handler, daemon=True)
    thread.start()
    thread.join(timeout=10)
    return not thread.is_alive()


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_to_be_done_is_done_once(number: signal.Signals) -> None:
    done: list[str] = []
    acted = threading.Event()

    def act() -> None:
        done.append(threading.current_thread().name)
        acted.set()

    at_signal(act)
    signal.raise_signal(number)
    assert acted.wait(timeout=30)
    signal.raise_signal(number)
    assert done == ["signals"]


@pytest.mark.parametrize("number", NUMBERS)
def test_the_handler_ends_though_the_main_thread_holds_the_events_lock(
    number: signal.Signals,
) -> None:
    """As it does for a moment in each `wait`, `set` and `clear`."""
    stop = threading.Event()
    at_signal(stop.set)
    handler = signal.getsignal(number)
    assert callable(handler)
    with stop._cond:  # type: ignore[attr-defined]
        assert _ends(lambda: handler(number, None))
        assert not stop.is_set()
    assert stop.wait(timeout=30)
