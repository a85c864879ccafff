"""The time that a driver may take to start GPUs that nobody holds: a cold driver does not hang.

Without persistence mode the driver initializes a GPU for its first client and deinitializes it
after the last one, so every probe can be cold. Source: NVIDIA, Driver Persistence ("order of 1-3
second startup cost per GPU").
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

START_S: Final = 3.0
"""Longest ordinary start of a GPU. GPUs start one after the other."""
DRIVERS_GPUS: Final = Path("/proc/driver/nvidia/gpus")
"""A directory for each GPU of the loaded driver. NVIDIA's runtime hides the GPUs of others."""


def with_cold_start(deadline_s: float, gpus: int, directory: Path = DRIVERS_GPUS) -> float:
    """The time limit of a probe, in seconds, if all GPUs may have to start.

    deadline_s: time limit of a probe of GPUs that have started. gpus: expected number of GPUs, 0 if
    unknown. The driver may have more.
    """
    return deadline_s + START_S * max(gpus, _count(directory))


def _count(directory: Path) -> int:
    try:
        return sum(1 for _ in directory.iterdir())
    except OSError:
        return 0
