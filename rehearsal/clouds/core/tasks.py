"""Work that outlives a request: written down before it starts, so that a killed service takes it up
again.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kubeapi import JsonObject
from rehearsal.clouds.core.store import Store

Task = Callable[[JsonObject], None]

KIND = "tasks"
log = logging.getLogger(__name__)


class Tasks:
    """Runs each task in a thread. A task must bear being run again from its beginning, and handle
    its own failures.
    """

    def __init__(self, store: Store, delay_s: Callable[[str], float]) -> None:
        self._store = store
        self._delay_s = delay_s
        self._handlers: dict[str, Task] = {}
        self._threads: dict[str, threading.Thread] = {}

    def register(self, handlers: Mapping[str, Task]) -> None:
        self._handlers.update(handlers)

    def begin(self, kind: str, **arguments: Any) -> None:
        """Written down first: when the request is answered, the work will be done, kill -9 or
        not.
        """
        identity = f"{time.time_ns()}-{secrets.token_hex(3)}"
        self._store.put(KIND, identity, {"kind": kind, "arguments": arguments})
        self._run(identity, kind, arguments)

    def resume(self) -> list[str]:
        """Takes up what a predecessor left, oldest first. Returns the kinds of work taken up."""
        left = list(self._store.items(KIND))
        for identity, task in left:
            self._run(identity, task["kind"], task["arguments"])
        return [task["kind"] for _, task in left]

    def wait(self, timeout_s: float) -> bool:
        """True when no work is left in this process."""
        deadline = time.monotonic() + timeout_s
        for thread in list(self._threads.values()):
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(t.is_alive() for t in self._threads.values())

    def _run(self, identity: str, kind: str, arguments: JsonObject) -> None:
        thread = threading.Thread(
            target=self._work,
            args=(identity, kind, arguments),
            name=f"{kind} {identity}",
            daemon=True,
        )
        self._threads[identity] = thread
        thread.start()

    def _work(self, identity: str, kind: str, arguments: JsonObject) -> None:
        try:
            pause = self._delay_s(kind)
            if pause > 0:
                time.sleep(pause)
            self._handlers[kind](arguments)
        except Exception:
            # A handler turns what it foresees into the state of its resource; this is a bug of
            # ours. The service lives on.
            log.exception("task %s %s", kind, arguments)
        finally:
            self._store.delete(KIND, identity)
            self._threads.pop(identity, None)
