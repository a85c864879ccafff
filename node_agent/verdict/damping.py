"""A node that comes and goes is not well: after some falls, good news must stand for a while before
it is told.

Bad news is always told at once, and a node's first way to a match is not slowed down.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from node_agent.verdict.verify import Verdict

_INTENDED = frozenset({"PartitioningUnderWay"})
"""Reasons for which a node leaves its match because somebody wants it to."""


@dataclass
class Damper:
    """Fed with every verdict in turn. Seconds on the monotonic clock."""

    falls: int = 4
    """So many falls from a match within `window_s` are flapping."""
    window_s: float = 600.0
    hold_s: float = 60.0
    """How long a match must stand after that."""
    _fallen_at: deque[float] = field(default_factory=deque)
    _well_since: float | None = None
    _trouble: Verdict | None = None
    """The last verdict that was no match."""

    def damp(self, verdict: Verdict, now: float) -> Verdict:
        """What to say: the verdict itself, or the trouble that has not yet stayed away for long
        enough.
        """
        while self._fallen_at and now - self._fallen_at[0] > self.window_s:
            self._fallen_at.popleft()
        if verdict.verdict != "Match":
            if self._well_since is not None and verdict.reason not in _INTENDED:
                self._fallen_at.append(now)
            self._well_since, self._trouble = None, verdict
            return self._flapping(verdict) if len(self._fallen_at) >= self.falls else verdict
        if self._well_since is None:
            self._well_since = now
        if (
            len(self._fallen_at) < self.falls
            or self._trouble is None
            or now - self._well_since >= self.hold_s
        ):
            return verdict
        return replace(self._flapping(self._trouble), instances=verdict.instances)

    def _flapping(self, trouble: Verdict) -> Verdict:
        """The same words while the trouble is there and while it is away, and without numbers or
        times: no news at any look.
        """
        until = f"It comes and goes; a match is told when it has stood for {self.hold_s:g} s."
        return replace(trouble, message=f"{trouble.message} {until}")
