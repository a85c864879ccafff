"""The processes of a session: a started program, and everything that it started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TRIES: Final = 100
_PAUSE_S: Final = 0.01


def pass_on(session: int, number: int) -> None:
    """Sends a signal to the program and the children in its process group, as a terminal does."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)


def kill(session: int) -> None:
    """Kills all processes of the session, also those that are born meanwhile."""
    pass_on(session, signal.SIGKILL)
    for _ in range(_TRIES):
        living = list(_members(session))
        if not living:
            return
        for pid in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _members(session: int) -> Iterator[int]:
    """Yields the living processes of the session. Pulumi gives each of its plugins a process group.

    Without /proc, as on macOS, only the process group is known.
    """
    if not _PROC.is_dir():
        return
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # The name of the program, in parentheses, may contain spaces.
            state, _, _, its_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue  # it has just ended
        if int(its_session) == session and state not in ("Z", "X"):
            yield int(entry.name)
