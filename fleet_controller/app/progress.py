"""The progress of the control loop, for health endpoints and metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from slicewright.fleet_controller.cluster.durations import Durations
from slicewright.fleet_controller.decision.actions import Action

PARTS = ("pass", "pool", "action", "question")
"""The parts that an unexpected exception can leave undone: a whole pass, the decision about one
pool, one action, or a question whose answer would only make messages clearer.
"""


@dataclass
class Progress:
    """Progress for health endpoints and metrics: written by the loop, read by the server's
    threads.
    """

    last_turn: float = field(default_factory=time.monotonic)
    """Time of the last turn in seconds, by the monotonic clock."""
    passes: int = 0
    pass_s: float = 0.0
    """Seconds spent in all passes."""
    error: str | None = None
    """Why the last pass failed."""
    postponed: int = 0
    """Actions that the last pass has left to the next one."""
    done: dict[tuple[str, str], int] = field(default_factory=dict)
    """(action, result) -> count."""
    durations: Durations = field(default_factory=Durations)
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    """Part of the controller -> unexpected exceptions in it."""

    def count(self, action: Action, result: str) -> None:
        key = (type(action).__name__, result)
        self.done[key] = self.done.get(key, 0) + 1
