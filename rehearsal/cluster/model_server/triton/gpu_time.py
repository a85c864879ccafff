"""Simulated time on a device: longer on a smaller partition, and on one that others use too."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from slicewright.rehearsal.cluster.model_server.turns import Turns

_SLICE_S: Final = 0.005
"""How long a process has the device before the next one's turn. The driver's is about 2 ms."""


class GpuTime:
    """One process's time on a device. The processes on a device take turns, as by time-slicing."""

    def __init__(self, *, share: float, turns: Path, name: str) -> None:
        """share: of a whole GPU's multiprocessors, above 0 and at most 1. turns: a directory that
        all processes on the device share; it is made if need be. name: of this process, within it.

        Raises OSError.
        """
        if not 0 < share <= 1:
            raise ValueError(f"a device has a share of its GPU above 0 and at most 1, not {share}")
        self._share = share
        self._turns = Turns(turns, name)

    def compute(self, seconds: float) -> None:
        """Returns when what takes `seconds` on a whole GPU, alone, would be done here."""
        remaining_s = seconds / self._share
        with self._turns.computing():
            while remaining_s > 0:
                mine = min(remaining_s, _SLICE_S)
                time.sleep(mine * self._turns.sharers())
                remaining_s -= mine
