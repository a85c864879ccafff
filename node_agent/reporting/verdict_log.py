"""Logs verdicts, each only when it changes."""

from __future__ import annotations

from slicewright.node_agent.verdict.findings import Verdict
from slicewright.telemetry import log


class VerdictLog:
    """Logs a verdict when it changes."""

    def __init__(self) -> None:
        self._message: str | None = None
        self.last: str | None = None
        """The last verdict, None before the first."""

    def record(self, verdict: Verdict) -> bool:
        """Records a verdict. True if it or its message has changed."""
        if (self.last, self._message) == (verdict.verdict, verdict.message):
            return False
        self.last, self._message = verdict.verdict, verdict.message
        log.info("verdict", verdict=verdict.verdict, reason=verdict.reason, message=verdict.message)
        return True
