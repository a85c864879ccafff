"""Clocks that a test moves, so that no test of the loops waits or depends on speed."""

from __future__ import annotations

from dataclasses import dataclass

from slicewright.node_agent.watch import Clock


@dataclass
class Clocks:
    """Both clocks stand still unless a test moves them."""

    monotonic_s: float = 1_000.0
    wall_s: float = 1_790_000_000.0
    """Since the epoch."""
    per_reading_s: float = 0.0
    """What every reading of the monotonic clock adds to it."""

    def monotonic(self) -> float:
        self.monotonic_s += self.per_reading_s
        return self.monotonic_s

    def wall(self) -> float:
        return self.wall_s

    def sleep(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds

    def clock(self) -> Clock:
        return Clock(monotonic=self.monotonic, wall=self.wall)
