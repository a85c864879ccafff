"""Exponential backoff with full jitter, which also obeys Retry-After."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

_MAX_RETRY_AFTER_S = 120.0
"""The longest accepted Retry-After. A wrong value must not silence an agent for a day."""


@dataclass
class Backoff:
    """Backoff in seconds of a single clock, with jitter, as 2,000 agents fail together."""

    longest_s: float
    random: Callable[[], float] = random.random
    _failures: int = 0
    _until: float = float("-inf")

    def waits(self, now: float) -> bool:
        # After the clock was set back, an end too far ahead does not count.
        return now < self._until <= now + max(self.longest_s, _MAX_RETRY_AFTER_S)

    def failed(self, now: float, retry_after_s: float | None) -> None:
        """Records a failure. retry_after_s: the server's Retry-After."""
        self._failures += 1
        pause = min(self.longest_s, 2.0 ** min(self._failures, 16)) * self.random()
        self._until = now + max(pause, min(retry_after_s or 0.0, _MAX_RETRY_AFTER_S))

    def succeeded(self) -> None:
        self._failures, self._until = 0, float("-inf")
