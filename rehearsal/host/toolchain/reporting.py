"""How the progress of obtaining tools is shown: a few lines in a log, or a line in place per tool.

Whoever calls gives a function that prints one line. A `Reporter` is such a function that can also
show steps; `reporter_of` makes one of any other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

Report = Callable[[str], None]
"""Prints one line."""

LINKING = "linking"
_LOG_EVERY_S = 60.0


class Step(Protocol):
    """One tool that is being downloaded, built or installed."""

    def update(self, state: str) -> None:
        """What it is doing now, such as `120 packages compiled`; may be called every second."""
        ...

    def done(self, result: str) -> None:
        """How it ended. Not called for a step that failed."""
        ...


@runtime_checkable
class Reporter(Protocol):
    """Prints lines, and shows steps."""

    def __call__(self, line: str, /) -> None: ...

    def step(
        self, title: str, doing: str, *, why: str = "", expected_s: float | None = None
    ) -> AbstractContextManager[Step]:
        """Shown until the context ends.

        why: the reason for doing it. expected_s: how long it usually takes; None where that is
        seconds, or not known.
        """
        ...


def reporter_of(report: Report) -> Reporter:
    """`report` itself if it can show steps, else log lines through it."""
    return report if isinstance(report, Reporter) else LogReporter(report)


class LogReporter:
    """For a log: a line when a long step begins, one a minute, one when linking, one at the end."""

    def __init__(self, report: Report, *, every_s: float = _LOG_EVERY_S) -> None:
        self._report = report
        self._every_s = every_s

    def __call__(self, line: str, /) -> None:
        self._report(line)

    @contextmanager
    def step(
        self, title: str, doing: str, *, why: str = "", expected_s: float | None = None
    ) -> Iterator[Step]:
        if expected_s is not None:
            reason = f"{why}; " if why else ""
            self._report(f"{title}: {reason}{doing}, {estimate(expected_s)}")
        yield _LoggedStep(self._report, title, expected_s, self._every_s)


class _LoggedStep:
    def __init__(
        self, report: Report, title: str, expected_s: float | None, every_s: float
    ) -> None:
        self._report = report
        self._title = title
        self._expected_s = expected_s
        self._every_s = every_s
        self._began = self._reported = time.monotonic()
        self._linking = False

    def update(self, state: str) -> None:
        now = time.monotonic()
        starts_linking = state == LINKING and not self._linking
        self._linking = state == LINKING
        if starts_linking or now - self._reported >= self._every_s:
            self._reported = now
            passed = elapsed(now - self._began, self._expected_s)
            self._report(f"{self._title}: {passed}, {state}")

    def done(self, result: str) -> None:
        self._report(f"{self._title}: {result}")


def duration(seconds: float) -> str:
    """`45 s`, `7 min 39 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def estimate(seconds: float) -> str:
    """`about 90 s on 2 cores`, `about 8 min on 2 cores`."""
    return f"about {_rounded_up(seconds)[1]} on 2 cores"


def elapsed(seconds: float, expected_s: float | None) -> str:
    """`2 min 5 s of about 8 min`, or `9 min 1 s (longer than the usual 8 min)`."""
    if expected_s is None:
        return duration(seconds)
    shown, text = _rounded_up(expected_s)
    # Compared with what is shown: 2 min 30 s are not longer than 3 min.
    if seconds <= shown:
        return f"{duration(seconds)} of about {text}"
    return f"{duration(seconds)} (longer than the usual {text})"


def _rounded_up(seconds: float) -> tuple[float, str]:
    """An estimate as it is shown: in seconds, and as text."""
    if seconds < 120:
        return math.ceil(seconds), f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return minutes * 60, f"{minutes} min"
