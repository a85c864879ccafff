"""Runs the load engine's process: sends its settings, and reads its outcomes and progress."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from slicewright.load import requests
from slicewright.load.load import Load
from slicewright.load.outcomes import Ended, Outcome, Progress, decode
from slicewright.processes.programs import Program, ProgramFailed, follow

_MODULE: Final = "slicewright.load.locust_process"
_OVERTIME_S: Final = 600.0
"""The time for the start, and for the answers that are in flight at the end."""
_GRACE_S: Final = 10.0
"""The time for its last lines after an interrupt."""
_LARGEST_OUTPUT: Final = 2**36
_LAST_WORDS: Final = 5
"""The number of last lines of the process's log that are shown after a failure."""


class NoEngine(Exception):
    """Locust is not installed. The message says how to install it."""


class EngineFailed(Exception):
    """No request was sent. The message says why."""


@dataclass
class Ran:
    outcomes: list[Outcome] = field(default_factory=list)
    failed: int = 0
    not_sent: int = 0
    signal: int | None = None
    """The signal that ended it, such as Ctrl-C. The outcomes are the ones until then."""
    log: str = ""
    """The end of the process's log."""
    complete: bool = False
    """True if the process wrote its last line."""

    @property
    def failures(self) -> Sequence[str]:
        """The reasons of failed requests, each once."""
        reasons = (outcome.failure for outcome in self.outcomes)
        return tuple(dict.fromkeys(reason for reason in reasons if reason is not None))


def check_installed() -> None:
    """Raises NoEngine."""
    if importlib.util.find_spec("locust") is None:
        raise NoEngine(
            "Locust is not installed. It sends the requests: install it with `pip install "
            "'slicewright[load]'`, or write a script for another tool with --export"
        )


def run(load: Load, progress: Callable[[str], None]) -> Ran:
    """progress: called about once a second with the progress as text. Raises EngineFailed."""
    try:
        request = requests.chat(load) if load.api == "chat" else requests.infer(load)
    except requests.NoModel as e:
        raise EngineFailed(str(e)) from None
    ran = Ran()
    _run(settings(load, request), load, ran, progress)
    if not ran.outcomes and not ran.complete and ran.signal is None:
        last = "\n".join(ran.log.splitlines()[-_LAST_WORDS:]) or "it wrote no reason"
        raise EngineFailed(f"the load engine ended early: {last}")
    return ran


def settings(load: Load, request: requests.Request) -> str:
    """Returns the JSON that the process reads. It has the API key, so it must not be logged."""
    return json.dumps(
        {
            "urls": [target.url for target in load.targets],
            "path": request.path,
            "headers": dict(request.headers),
            "body": base64.b64encode(request.body).decode(),
            "varied": request.varied,
            "duration_s": load.duration_s,
            "users": load.users,
            "rate": load.rate,
            "fresh_connections": load.fresh_connections,
        }
    )


def _run(settings_text: str, load: Load, ran: Ran, progress: Callable[[str], None]) -> None:
    program = Program(
        argv=(sys.executable, "-m", _MODULE),
        name="the load engine",
        limit_s=load.duration_s + _OVERTIME_S,
        # Locust reads LOCUST_…: the user's own variables would change the run.
        environment={k: v for k, v in os.environ.items() if not k.startswith("LOCUST_")},
        standard_input=settings_text.encode(),
        largest_output=_LARGEST_OUTPUT,
        grace_s=_GRACE_S,
    )
    reader = _Reader(ran, progress)
    try:
        ended = follow(program, reader.add)
    except ProgramFailed as e:
        ran.log = str(e)
    else:
        ran.log = ended.stderr.decode(errors="replace")
        ran.signal = ended.signal


@dataclass
class _Reader:
    """Adds the outcomes in the process's output to `ran`, line by line."""

    ran: Ran
    progress: Callable[[str], None]
    _line: bytes = b""

    def add(self, part: bytes) -> None:
        *lines, self._line = (self._line + part).split(b"\n")
        for line in lines:
            self._add_line(line.decode(errors="replace"))

    def _add_line(self, line: str) -> None:
        match decode(line):
            case Outcome() as outcome:
                self.ran.outcomes.append(outcome)
                self.ran.failed += outcome.failure is not None
            case Progress() as now:
                self.progress(_progress_line(self.ran, now))
            case Ended() as end:
                self.ran.not_sent, self.ran.complete = end.not_sent, True
            case None:
                pass


def _progress_line(ran: Ran, now: Progress) -> str:
    return (
        f"{now.seconds:.0f} s: {len(ran.outcomes) - ran.failed} answered, {ran.failed} failed, "
        f"{now.under_way} in flight"
    )
