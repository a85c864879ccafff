"""Damps flapping: after several lost matches, a new match counts only after it has lasted.

Every other verdict counts at once, and a node's first match is not delayed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from slicewright.node_agent.verdict.findings import Verdict

_INTENDED = frozenset({"LayoutChangePending", "PartitioningUnderWay", "DeviceNodesOutdated"})
"""Reasons of intended losses of a match."""


@dataclass
class Damper:
    """Takes every verdict in turn. Seconds on the monotonic clock."""

    falls: int = 4
    """Number of lost matches within `window_s` that counts as flapping."""
    window_s: float = 600.0
    hold_s: float = 60.0
    """Time that a match must last while the node flaps, in seconds."""
    _lost_at: deque[float] = field(default_factory=deque)
    _match_since: float | None = None
    _last_problem: Verdict | None = None
    """The last verdict other than Match."""

    def damp(self, verdict: Verdict, now: float) -> Verdict:
        """The verdict to report: this one, or the last problem until a match has lasted."""
        while self._lost_at and now - self._lost_at[0] > self.window_s:
            self._lost_at.popleft()
        if verdict.verdict != "Match":
            if self._match_since is not None and verdict.reason not in _INTENDED:
                self._lost_at.append(now)
            self._match_since, self._last_problem = None, verdict
            return self._flapping(verdict) if len(self._lost_at) >= self.falls else verdict
        if self._match_since is None:
            self._match_since = now
        if (
            len(self._lost_at) < self.falls
            or self._last_problem is None
            or now - self._match_since >= self.hold_s
        ):
            return verdict
        return replace(self._flapping(self._last_problem), instances=verdict.instances)

    def _flapping(self, problem: Verdict) -> Verdict:
        """A message that is the same with and without the problem, so that it causes no reports."""
        until = f"It is flapping; a match counts after it has lasted {self.hold_s:g} s."
        return replace(problem, message=f"{problem.message} {until}")
