"""Work that outlives a request, recorded first so that a restarted service resumes it."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.store import Kind, Store

Task = Callable[[JsonObject], None]

TASKS = Kind[JsonObject]("tasks")
_LOOK_AGAIN_S = 0.2
"""How often a delayed task looks whether it still is: a delay may be taken back."""
log = logging.getLogger(__name__)


class Tasks:
    """Runs each task in a thread. A task must be repeatable and handle its own failures.

    delay_s: for how many seconds tasks of a kind do nothing, asked again until they are over.
    """

    def __init__(self, store: Store, delay_s: Callable[[str], float]) -> None:
        self._store = store
        self._delay_s = delay_s
        self._handlers: dict[str, Task] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        """Of `_threads`."""

    def register(self, handlers: Mapping[str, Task]) -> None:
        self._handlers.update(handlers)

    def begin(self, kind: str, **arguments: Any) -> None:
        """Recorded first: once the request is answered, the work will be done, kill -9 or not."""
        identity = f"{time.time_ns()}-{secrets.token_hex(3)}"
        self._store.put(TASKS, identity, {"kind": kind, "arguments": arguments})
        self._start(identity, kind, arguments)

    def resume(self) -> list[str]:
        """Restarts the work that a predecessor left, oldest first; returns its kinds."""
        unfinished = list(self._store.items(TASKS))
        for identity, task in unfinished:
            self._start(identity, task["kind"], task["arguments"])
        return [task["kind"] for _, task in unfinished]

    def wait(self, timeout_s: float) -> bool:
        """Whether all work of this process ended in time, with what it began itself."""
        deadline = time.monotonic() + timeout_s
        while threads := self._alive():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            threads[0].join(left_s)
        return True

    def _alive(self) -> list[threading.Thread]:
        with self._lock:
            return [thread for thread in self._threads.values() if thread.is_alive()]

    def _start(self, identity: str, kind: str, arguments: JsonObject) -> None:
        thread = threading.Thread(
            target=self._run,
            args=(identity, kind, arguments),
            name=f"{kind} {identity}",
            daemon=True,
        )
        with self._lock:
            self._threads[identity] = thread
            thread.start()

    def _run(self, identity: str, kind: str, arguments: JsonObject) -> None:
        try:
            began = time.monotonic()
            while (left_s := began + self._delay_s(kind) - time.monotonic()) > 0:
                time.sleep(min(left_s, _LOOK_AGAIN_S))
            self._handlers[kind](arguments)
        except Exception:
            # A handler records the failures that it expects in its resource; this one is a bug.
            # The service continues.
            log.exception("task %s %s", kind, arguments)
        finally:
            self._store.delete(TASKS, identity)
            with self._lock:
                self._threads.pop(identity, None)
