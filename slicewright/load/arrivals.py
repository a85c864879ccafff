"""The schedule of requests: at a steady rate, or as soon as a user is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_LATEST_S: Final = 0.5
"""The limit for a late start. If no user is free within this time, the request is not sent."""


@dataclass
class SteadyRate:
    """An open model: the times of requests do not depend on earlier answers.

    Locust has no such schedule. Its constant_throughput limits each user, and sends all requests of
    a second at once (docs/adr/load-engine.md).
    """

    per_second: int
    duration_s: float
    began_s: float
    not_sent: int = 0
    _next: int = 0

    def take(self, now_s: float) -> float | None:
        """Returns the time of the next request, or None if there are no more."""
        self.skip_until(now_s - _LATEST_S)
        if self._next >= self.total:
            return None
        self._next += 1
        return self._due_s(self._next - 1)

    def skip_until(self, moment_s: float) -> None:
        """Counts the requests that were due before that moment as not sent."""
        while self._next < self.total and self._due_s(self._next) < moment_s:
            self._next += 1
            self.not_sent += 1

    @property
    def total(self) -> int:
        return round(self.per_second * self.duration_s)

    def _due_s(self, index: int) -> float:
        return self.began_s + index / self.per_second


@dataclass
class WhenFree:
    """A closed model: each user sends a request again as soon as it has its answer."""

    duration_s: float
    began_s: float
    not_sent: int = 0

    def take(self, now_s: float) -> float | None:
        """Returns the time of the next request, or None if there are no more."""
        return now_s if now_s < self.began_s + self.duration_s else None

    def skip_until(self, moment_s: float) -> None:
        """Does nothing: no request is due at a set time."""
