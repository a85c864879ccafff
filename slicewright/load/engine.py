"""The load engine's process: what it gets, and what it tells while it runs."""

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
from slicewright.load.asked import Load
from slicewright.load.outcomes import Ended, Outcome, Progress, decode

_MODULE: Final = "slicewright.load.locust_process"
_LAST_WORDS: Final = 5
"""Lines of the process's log that are shown if it fails."""


class NoEngine(Exception):
    """Locust is not installed; the message says what to do."""


class EngineFailed(Exception):
    """No request was sent; the message says why."""


@dataclass
class Ran:
    outcomes: list[Outcome] = field(default_factory=list)
    failed: int = 0
    not_sent: int = 0
    interrupted: bool = False
    """True if Ctrl-C ended it: the outcomes are those until then."""
    complete: bool = False
    """True if the process wrote its last line."""

    @property
    def failures(self) -> Sequence[str]:
        """Why requests failed, each reason once."""
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
    """progress: called about once a second with how far it is. Raises EngineFailed."""
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
    """The JSON that the process reads. It has the API key, so it must not get into a log."""
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


def _run(given: str, log: IO[str], ran: Ran, progress: Callable[[str], None]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", _MODULE],
        # Locust reads LOCUST_…: variables of the user's own would change the run.
        env={name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        # Ctrl-C reaches it from here only, so that it can still write its last line.
        start_new_session=True,
    ) as process:
        try:
            _follow(process, given, ran, progress)
        except KeyboardInterrupt:
            ran.interrupted = True
            process.send_signal(signal.SIGINT)
            _rest(process, ran, progress)
        except BaseException:
            process.kill()
            raise


def _follow(
    process: subprocess.Popen[str], given: str, ran: Ran, progress: Callable[[str], None]
) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(given)
        process.stdin.close()
    except BrokenPipeError:
        pass  # it has ended; its log says why
    _read(process, ran, progress)


def _rest(process: subprocess.Popen[str], ran: Ran, progress: Callable[[str], None]) -> None:
    """Reads what the process still writes after an interrupt. A second Ctrl-C kills it."""
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
        f"{now.under_way} under way"
    )
