"""What the loop last did, on the monotonic clock; behind /healthz and /readyz."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Health:
    """Written by the loop, read by the HTTP server's threads."""

    stall_after_s: float
    """A loop that has not come round for so long is taken for dead. Independent of NVML: the look
    has its own deadline.
    """
    stale_after_s: float
    """A look older than this no longer stands for the node."""
    turned: float = field(default_factory=time.monotonic)
    looked: float | None = None
    report_error: str | None = "nothing reported yet"

    def alive(self) -> str | None:
        """None, or why not."""
        age = time.monotonic() - self.turned
        return None if age < self.stall_after_s else f"the loop has not come round for {age:.0f} s"

    def ready(self) -> str | None:
        """None where the cluster has the agent's current word, or why not."""
        if self.looked is None:
            return "no look at the GPUs yet"
        age = time.monotonic() - self.looked
        if age >= self.stale_after_s:
            return f"the last look at the GPUs is {age:.0f} s old"
        return (
            f"the report is not in the cluster: {self.report_error}" if self.report_error else None
        )
