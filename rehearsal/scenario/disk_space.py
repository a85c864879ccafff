"""Space for an environment: refused before one is made, recognised where it ran out."""

from __future__ import annotations

from pathlib import Path

from slicewright.rehearsal.host.toolchain import disk
from slicewright.rehearsal.scenario.engine_runs import Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import DiskFull

NEEDED_BYTES = 400e6
"""gke-h100 and eks-a100 grow to 173 MB each, most of it etcd's (measured 2026-11-22); the rest is
for fleets of more nodes, and their logs.
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


def is_full(environment: Environment) -> bool:
    """Whether the disk is full; the engine then hangs, or fails with a stack trace."""
    return disk.free(environment.root) < _FULL_BYTES


def require_not_full(environment: Environment, outcome: Outcome) -> None:
    """Raises DiskFull where a command failed and the disk is full."""
    if outcome.code and (is_full(environment) or "no space left on device" in outcome.output):
        raise DiskFull(
            f"the disk is full: {environment.root} has {disk.free(environment.root) / 1e6:.0f} MB "
            f"free, which is why `{' '.join(outcome.command.split()[:2])}` failed; free some space "
            f"(an environment needs {NEEDED_BYTES / 1e6:.0f} MB) and run it again, or choose "
            "another --directory"
        )
