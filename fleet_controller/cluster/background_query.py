"""Questions that run in parallel with the passes of the control loop, each in its own thread.

A list of all operands of a large fleet takes seconds, and its answer only makes messages clearer: a
pass does not wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundQuery(Generic[T]):
    """The last answer to a question.

    changed: called, in the question's thread, after another answer.
    """

    def __init__(self, changed: Callable[[], None], *, every_s: float) -> None:
        self.every_s = every_s
        """Least time between the beginnings of two questions."""
        self._changed = changed
        self._answer: T | None = None
        self._last_query_s = float("-inf")
        self._thread: threading.Thread | None = None

    def latest(self, ask: Callable[[], T | None]) -> T | None:
        """Returns the last answer, or None without one. Asks again if that is due, and no question
        is open.

        ask: returns None, too, if there is no answer. The earlier answer stays then.
        """
        if self._thread is not None and self._thread.is_alive():
            return self._answer
        if time.monotonic() - self._last_query_s >= self.every_s:
            self._last_query_s = time.monotonic()
            self._thread = threading.Thread(
                target=self._put, args=(ask,), name="query", daemon=True
            )
            self._thread.start()
        return self._answer

    def _put(self, ask: Callable[[], T | None]) -> None:
        answer = ask()
        if answer is not None and answer != self._answer:
            self._answer = answer
            self._changed()
