"""How long the API server is left alone after an error: longer each time, at random, and as long as
it asks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

_OBEYED_S = 120.0
"""The longest Retry-After that is obeyed: nobody's typing error shall silence an agent for a
day.
"""


@dataclass
class Backoff:
    """Seconds on any one clock. Full jitter: 2,000 agents that failed together do not come back
    together.
    """

    longest_s: float
    random: Callable[[], float] = random.random
    _failures: int = 0
    _until: float = float("-inf")

    def waits(self, now: float) -> bool:
        # A clock set back must not silence the agent for as long as it was wrong.
        return now < self._until <= now + max(self.longest_s, _OBEYED_S)

    def failed(self, now: float, asked_s: float | None) -> None:
        """asked_s: the server's Retry-After."""
        self._failures += 1
        pause = min(self.longest_s, 2.0 ** min(self._failures, 16)) * self.random()
        self._until = now + max(pause, min(asked_s or 0.0, _OBEYED_S))

    def succeeded(self) -> None:
        self._failures, self._until = 0, float("-inf")
