"""Handling of the signals that end a process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue


def at_signal(act: Callable[[], object]) -> None:
    """Calls `act` in a separate thread at the first SIGTERM or SIGINT. Call this in the main
    thread.

    A handler runs in the main thread between any two instructions, even while that thread holds the
    lock of the Event that the handler would set: this would deadlock. `SimpleQueue.put` is the only
    function of the standard library that is safe in a handler.
    """
    arrived: SimpleQueue[int] = SimpleQueue()

    def wait() -> None:
        arrived.get()
        act()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: arrived.put(got))
