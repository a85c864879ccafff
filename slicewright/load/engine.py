"""Runs the load engine's process: sends its settings, and reads its outcomes and progress."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

from slicewright.load import requests
from slicewright.load.load import Load
from slicewright.load.outcomes import Ended, Outcome, Progress, decode

_MODULE: Final = "slicewright.load.locust_process"
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
    interrupted: bool = False
    """True if Ctrl-C ended it. The outcomes are the ones until then."""
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
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        _run(settings(load, request), log, ran, progress)
        if not ran.outcomes and not ran.complete:
            log.seek(0)
            last = "\n".join(log.read().splitlines()[-_LAST_WORDS:]) or "it wrote no reason"
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


def _run(settings_text: str, log: IO[str], ran: Ran, progress: Callable[[str], None]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", _MODULE],
        # Locust reads LOCUST_…: the user's own variables would change the run.
        env={name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        # Only this process passes Ctrl-C on, so that it can still write its last line.
        start_new_session=True,
    ) as process:
        try:
            _follow(process, settings_text, ran, progress)
        except KeyboardInterrupt:
            ran.interrupted = True
            process.send_signal(signal.SIGINT)
            _rest(process, ran, progress)
        except BaseException:
            process.kill()
            raise


def _follow(
    process: subprocess.Popen[str], settings_text: str, ran: Ran, progress: Callable[[str], None]
) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(settings_text)
        process.stdin.close()
    except BrokenPipeError:
        pass  # the process has ended, and its log says why
    _read(process, ran, progress)


def _rest(process: subprocess.Popen[str], ran: Ran, progress: Callable[[str], None]) -> None:
    """Reads the last lines of the process after an interrupt. A second Ctrl-C kills it."""
    try:
        _read(process, ran, progress)
    except KeyboardInterrupt:
        process.kill()


def _read(process: subprocess.Popen[str], ran: Ran, progress: Callable[[str], None]) -> None:
    assert process.stdout is not None
    for text in process.stdout:
        match decode(text):
            case Outcome() as outcome:
                ran.outcomes.append(outcome)
                ran.failed += outcome.failure is not None
            case Progress() as now:
                progress(_progress_line(ran, now))
            case Ended() as end:
                ran.not_sent, ran.complete = end.not_sent, True
            case None:
                pass


def _progress_line(ran: Ran, now: Progress) -> str:
    return (
        f"{now.seconds:.0f} s: {len(ran.outcomes) - ran.failed} answered, {ran.failed} failed, "
        f"{now.under_way} in flight"
    )
