"""The loop's last actions, on the monotonic clock, for /healthz and /readyz."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Health:
    """Written by the loop, read by the HTTP server's threads."""

    stall_after_s: float
    """A loop whose last turn began longer ago is not alive. A hung driver does not stall it: every
    probe has a deadline.
    """
    stale_after_s: float
    """A probe older than this no longer describes the node."""
    clock: Callable[[], float] = time.monotonic
    turned: float = field(init=False)
    probed: float | None = None
    report_error: str | None = "nothing reported yet"
    node_error: str | None = None
    """Why the last request for this agent's Node failed."""

    def __post_init__(self) -> None:
        self.turned = self.clock()

    def alive(self) -> str | None:
        """Returns None if the loop is alive, or why it is not."""
        age = self.clock() - self.turned
        return None if age < self.stall_after_s else f"the loop's last turn began {age:.0f} s ago"

    def ready(self) -> str | None:
        """None if the agent's report is current and can be kept current, or why not."""
        if self.probed is None:
            return "the GPUs have not been probed yet"
        age = self.clock() - self.probed
        if age >= self.stale_after_s:
            return f"the last probe of the GPUs is {age:.0f} s old"
        if self.report_error:
            return f"the report is not written: {self.report_error}"
        return f"this agent's Node is not read: {self.node_error}" if self.node_error else None
