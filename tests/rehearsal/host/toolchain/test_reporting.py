"""What somebody sees who waits for the tools: in a log, and on a terminal."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from slicewright.rehearsal.host.toolchain import reporting
from slicewright.rehearsal.host.toolchain.reporting import (
    LINKING,
    LogReporter,
    elapsed,
    reporter_of,
)
from slicewright.rehearsal.host.toolchain.terminal import TerminalReporter, reporter


def test_more_time_than_estimated_is_never_shown_as_x_of_y() -> None:
    assert elapsed(125, 459) == "2 min 5 s of about 8 min"
    assert elapsed(459, 459) == "7 min 39 s of about 8 min"
    assert elapsed(129, 130) == "2 min 9 s of about 3 min"
    assert elapsed(150, 130) == "2 min 30 s of about 3 min"
    assert elapsed(180, 130) == "3 min 0 s of about 3 min"
    assert elapsed(181, 130) == "3 min 1 s (longer than the usual 3 min)"
    assert elapsed(641, 459) == "10 min 41 s (longer than the usual 8 min)"
    assert elapsed(3, None) == "3 s"


def test_a_log_has_a_line_a_minute_and_one_when_linking(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(reporting.time, "monotonic", lambda: now)
    lines: list[str] = []
    with reporter_of(lines.append).step(
        "kwok v0.8.0", "building it", why="kwok is not on PATH", expected_s=130
    ) as step:
        for second in range(1, 191):
            now = float(second)
            step.update("compiling" if second < 150 else LINKING)
        step.done("built in 3 min 10 s")
    assert lines == [
        "kwok v0.8.0: kwok is not on PATH; building it, about 3 min on 2 cores",
        "kwok v0.8.0: 60 s of about 3 min, compiling",
        "kwok v0.8.0: 2 min 0 s of about 3 min, compiling",
        "kwok v0.8.0: 2 min 30 s of about 3 min, linking",
        "kwok v0.8.0: built in 3 min 10 s",
    ]


def test_a_step_that_fails_leaves_no_result() -> None:
    lines: list[str] = []
    with pytest.raises(ZeroDivisionError), LogReporter(lines.append).step("x", "downloading"):
        raise ZeroDivisionError
    assert lines == []


def test_a_terminal_shows_one_line_that_is_replaced_by_the_result() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=60, color_system=None)
    shown = TerminalReporter(console)
    with shown.step("pulumi v3", "building it", why="not on PATH", expected_s=365) as step:
        step.update("compiling, 1200 packages so far, and more than fits on one line")
        deadline = time.monotonic() + 60
        while not re.search(r"pulumi v3: \d+ s of about 7 min, compiling, 1200", file.getvalue()):
            assert time.monotonic() < deadline, file.getvalue()
            time.sleep(0.05)
        shown("a line above it")
        step.done("built in 6 min 5 s")
    output = file.getvalue()
    assert "\x1b[2K" in output, "the line is erased before it is drawn again"
    assert all(len(line) < 120 for line in output.split("\x1b[2K"))
    assert (
        output.rstrip().splitlines()[-1].endswith("✓ pulumi v3: built in 6 min 5 s (not on PATH)")
    )
    assert "a line above it" in output


def test_only_a_terminal_gets_lines_in_place() -> None:
    file = io.StringIO()
    log = reporter(Console(file=file, width=40))
    assert isinstance(log, LogReporter)
    log("a line of more than forty characters with a /path/that/is/not/broken")
    assert file.getvalue().count("\n") == 1
    assert isinstance(reporter(Console(file=file, force_terminal=True)), TerminalReporter)
