"""Simulated time on a device: longer on a smaller partition, and on one that others use too."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SLICE_S: Final = 0.005
"""How long a process has the device before the next one's turn. The driver's is about 2 ms."""


class GpuTime:
    """One process's time on a device. The processes on a device take turns, as by time-slicing.

    Each process holds a lock while it computes. The kernel releases it when the process ends, so
    that one that was killed takes no more turns.
    """

    def __init__(self, *, share: float, turns: Path, name: str) -> None:
        """share: of a whole GPU's multiprocessors, above 0 and at most 1. turns: a directory that
        all processes on the device share; it is made if need be. name: of this process, within it.

        Raises OSError.
        """
        if not 0 < share <= 1:
            raise ValueError(f"a device has a share of its GPU above 0 and at most 1, not {share}")
        self._share = share
        self._turns = turns
        self._own = turns / name
        if not turns.is_dir():
            turns.mkdir(exist_ok=True)
            turns.chmod(0o777)  # the pods on a device may have different users

    def compute(self, seconds: float) -> None:
        """Returns when what takes `seconds` on a whole GPU, alone, would be done here."""
        left = seconds / self._share
        with self._computing():
            while left > 0:
                mine = min(left, _SLICE_S)
                time.sleep(mine * self.sharers())
                left -= mine

    def sharers(self) -> int:
        """Processes that compute on the device now; this one counts once it does."""
        return sum(1 for file in self._turns.iterdir() if _is_locked(file))

    @contextmanager
    def _computing(self) -> Iterator[None]:
        descriptor = os.open(self._own, os.O_RDWR | os.O_CREAT, 0o644)
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
        # Shared: those who look at the same time do not take each other for one who computes.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
