"""Which processes compute on a simulated device at the moment: they share its time.

Each process holds a lock while it computes. The kernel releases it when the process ends, so that
one that was killed has no part any more.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

DIRECTORY: Final = Path("/run/simulated-gpu-turns")
"""Of the node: all of its containers see it, and each device has a directory there."""


class Turns:
    """One process on one device."""

    def __init__(self, directory: Path, name: str) -> None:
        """directory: of the device; it is made if need be. name: of this process, within it.

        Raises OSError.
        """
        self._directory = directory
        self._own_file = directory / name
        if not directory.is_dir():
            directory.mkdir(exist_ok=True)
            directory.chmod(0o777)  # the pods on a device may have different users

    def sharers(self) -> int:
        """Processes that compute on the device now; this one counts once it does."""
        return sum(1 for file in self._directory.iterdir() if _is_locked(file))

    @contextmanager
    def computing(self) -> Iterator[None]:
        descriptor = os.open(self._own_file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _is_locked(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Shared, so that processes which only look do not count each other as computing.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
