"""What a process does when it is asked to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue


def at_signal(act: Callable[[], object]) -> None:
    """Has `act` called at the first SIGTERM or SIGINT, in a thread of its own. Call it in the main
    thread.

    A handler runs in the main thread between any two instructions, also where that holds the lock
    of the very Event that the handler would set: it would wait for itself for ever. Of what is in
    the standard library, only `SimpleQueue.put` may be called there.
    """
    arrived: SimpleQueue[int] = SimpleQueue()

    def wait() -> None:
        arrived.get()
        act()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: arrived.put(got))
