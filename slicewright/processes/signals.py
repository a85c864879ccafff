"""The signals that ask a command to stop: Ctrl-C (SIGINT), SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to stop."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Returns the exit code of an interrupted command, as a shell computes it."""
    return 128 + (interrupt.number if isinstance(interrupt, Interrupted) else signal.SIGINT)


@contextmanager
def raised() -> Iterator[None]:
    """A stopping signal raises Interrupted in this block."""

    def interrupt(number: int) -> None:
        raise Interrupted(number)

    with handled(interrupt):
        yield


@contextmanager
def handled(act: Callable[[int], None]) -> Iterator[None]:
    """Calls `act` for each stopping signal that arrives in this block, then restores the handlers.

    Other threads than the main one cannot handle signals, so there it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: dict[signal.Signals, Any] = {}
    try:
        for number in STOPPING:
            handler = signal.getsignal(number)
            # An ignored signal stays ignored: `nohup` relies on it.
            if handler not in (signal.SIG_IGN, None):
                previous[number] = handler
                signal.signal(number, lambda arrived, _: act(arrived))
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
