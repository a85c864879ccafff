"""Work that outlives a request, recorded first so that a restarted service resumes it."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kubeapi import JsonObject
from rehearsal.clouds.core.store import Kind, Store

Task = Callable[[JsonObject], None]

TASKS = Kind[JsonObject]("tasks")
log = logging.getLogger(__name__)


class Tasks:
    """Runs each task in a thread. A task must be repeatable and handle its own failures."""

    def __init__(self, store: Store, delay_s: Callable[[str], float]) -> None:
        self._store = store
        self._delay_s = delay_s
        self._handlers: dict[str, Task] = {}
        self._threads: dict[str, threading.Thread] = {}

    def register(self, handlers: Mapping[str, Task]) -> None:
        self._handlers.update(handlers)

    def begin(self, kind: str, **arguments: Any) -> None:
        """Recorded first: once the request is answered, the work will be done, kill -9 or not."""
        identity = f"{time.time_ns()}-{secrets.token_hex(3)}"
        self._store.put(TASKS, identity, {"kind": kind, "arguments": arguments})
        self._start(identity, kind, arguments)

    def resume(self) -> list[str]:
        """Restarts the work that a predecessor left, oldest first; returns its kinds."""
        left = list(self._store.items(TASKS))
        for identity, task in left:
            self._start(identity, task["kind"], task["arguments"])
        return [task["kind"] for _, task in left]

    def wait(self, timeout_s: float) -> bool:
        """Whether all work of this process ended in time."""
        deadline = time.monotonic() + timeout_s
        for thread in list(self._threads.values()):
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(t.is_alive() for t in self._threads.values())

    def _start(self, identity: str, kind: str, arguments: JsonObject) -> None:
        thread = threading.Thread(
            target=self._run,
            args=(identity, kind, arguments),
            name=f"{kind} {identity}",
            daemon=True,
        )
        self._threads[identity] = thread
        thread.start()

    def _run(self, identity: str, kind: str, arguments: JsonObject) -> None:
        try:
            delay_s = self._delay_s(kind)
            if delay_s > 0:
                time.sleep(delay_s)
            self._handlers[kind](arguments)
        except Exception:
            # A handler records the failures that it expects in its resource; this one is a bug.
            # The service continues.
            log.exception("task %s %s", kind, arguments)
        finally:
            self._store.delete(TASKS, identity)
            self._threads.pop(identity, None)
