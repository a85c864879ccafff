"""Progress on a console: one line per tool that is updated in place, if it is a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from slicewright.rehearsal.host.toolchain.reporting import LogReporter, Reporter, Step, elapsed

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_S = 8


def reporter(console: Console) -> Reporter:
    """Lines that update in place if `console` is a terminal, else log lines."""
    if console.is_interactive:
        return TerminalReporter(console)
    return LogReporter(lambda line: print_line(console, line))


class TerminalReporter:
    """A line that is updated while a tool is obtained, and replaced by its result at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, line: str, /) -> None:
        print_line(self._console, line)

    @contextmanager
    def step(
        self, title: str, doing: str, *, why: str = "", expected_s: float | None = None
    ) -> Iterator[Step]:
        shown = _ShownStep(title, doing, expected_s)
        with Live(shown, console=self._console, refresh_per_second=4, transient=True):
            yield shown
        if shown.result is not None:
            reason = f" ({why})" if why else ""
            print_line(self._console, f"✓ {title}: {shown.result}{reason}")


class _ShownStep:
    def __init__(self, title: str, doing: str, expected_s: float | None) -> None:
        self._title = title
        self._state = doing
        self._expected_s = expected_s
        self._began = time.monotonic()
        self.result: str | None = None

    def update(self, state: str) -> None:
        self._state = state

    def done(self, result: str) -> None:
        self.result = result

    def __rich__(self) -> Text:
        seconds = time.monotonic() - self._began
        frame = _FRAMES[int(seconds * _FRAMES_PER_S) % len(_FRAMES)]
        return Text.assemble(
            (frame, "cyan"),
            f" {self._title}: {elapsed(seconds, self._expected_s)}, {self._state}",
            no_wrap=True,
            overflow="ellipsis",
        )


def print_line(console: Console, line: str) -> None:
    """Prints one line that the terminal wraps, so that no path is broken where it is a log."""
    console.print(Text(line), soft_wrap=True)
