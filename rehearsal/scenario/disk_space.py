"""Space for an environment: refused before one is made, recognised where it ran out."""

from __future__ import annotations

from pathlib import Path

from rehearsal.host.toolchain import disk
from rehearsal.scenario.engine_runs import Outcome
from rehearsal.scenario.environment import Environment
from rehearsal.scenario.errors import DiskFull

NEEDED_BYTES = 400e6
"""S0 and S1 grow to 173 MB each, nearly all of it etcd's (measured 2026-11-22); twice that, for logs
and more nodes.
"""
_FULL_BYTES = 8e6
"""With less the engine's checkpoints and etcd's log no longer fit."""


def require(directory: Path) -> None:
    """Raises DiskFull where an environment below `directory` would not fit."""
    if (free := disk.free(directory)) < NEEDED_BYTES:
        raise DiskFull(
            f"{directory} has {free / 1e6:.0f} MB free, and an environment needs "
            f"{NEEDED_BYTES / 1e6:.0f} MB; free some space, or choose another --directory"
        )


def require_not_full(environment: Environment, outcome: Outcome) -> None:
    """Raises DiskFull where a command failed and the disk is full.

    The engine's own words for it are a stack trace and "internal error".
    """
    free = disk.free(environment.root)
    if outcome.code and (free < _FULL_BYTES or "no space left on device" in outcome.output):
        raise DiskFull(
            f"the disk is full: {environment.root} has {free / 1e6:.0f} MB free, which is why "
            f"`{' '.join(outcome.command.split()[:2])}` failed; free some space (an environment "
            f"needs {NEEDED_BYTES / 1e6:.0f} MB) and run it again, or choose another --directory"
        )
