"""Messages about waits, on stderr: nobody looks at a silent command for longer than seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from slicewright.telemetry.plain import plain

NOTICE_S: Final = 2.5
"""A wait of this length is announced."""


def tell(line: str) -> None:
    with suppress(OSError):  # nobody reads it
        print(f"slicewright: {plain(line)}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Returns for example "90 s", "5 min" or "6 h"."""
    whole = round(seconds)
    if whole >= 3600 and whole % 3600 == 0:
        return f"{whole // 3600} h"
    return f"{whole // 60} min" if whole >= 120 and whole % 60 == 0 else f"{whole} s"


class Wait:
    """A wait that is printed, as "waiting for x", if it takes longer than seconds."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        self.end()
        self._timer = threading.Timer(NOTICE_S, tell, (self._text,))
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


@contextmanager
def announced(text: str) -> Iterator[None]:
    """Prints the wait if the block takes longer than seconds."""
    wait = Wait(text)
    wait.begin()
    try:
        yield
    finally:
        wait.end()
