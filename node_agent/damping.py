"""A node that comes and goes is not well: after some falls, good news must stand for a while before it is told.

Bad news is always told at once, and a node's first way to a match is not slowed down.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from node_agent.verify import Verdict

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

    def told(self, verdict: Verdict, now: float) -> Verdict:
        """What to say: the verdict itself, or the trouble that has not yet stayed away for long enough."""
        if verdict.verdict != "Match":
            if self._well_since is not None and verdict.reason not in _INTENDED:
                self._fallen_at.append(now)
            self._well_since, self._trouble = None, verdict
            return verdict
        if self._well_since is None:
            self._well_since = now
        while self._fallen_at and now - self._fallen_at[0] > self.window_s:
            self._fallen_at.popleft()
        flapping = len(self._fallen_at) >= self.falls
        if not flapping or self._trouble is None or now - self._well_since >= self.hold_s:
            return verdict
        # Without numbers or times: the same words at every look, so that no report is written for them.
        until = f"It comes and goes; a match is told when it has stood for {self.hold_s:g} s."
        return replace(self._trouble, message=f"{self._trouble.message} {until}", instances=verdict.instances)
