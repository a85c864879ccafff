"""Turns a fabric that is not set up for too long into a lasting mismatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slicewright.apis.desired_state import Desired
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.judge import replace_reason

LIMIT_S: Final = 600.0
"""Fabric Manager takes a minute or two. "In progress" for ever was reported: NVIDIA/gpu-operator
#2511.
"""


@dataclass
class FabricPatience:
    """Takes every verdict in turn. Seconds on the monotonic clock."""

    _since: float | None = None

    def judge(self, verdict: Verdict, desired: Desired, now: float) -> Verdict:
        if verdict.reason != "FabricNotReady":
            self._since = None
            return verdict
        self._since = now if self._since is None else self._since
        if now - self._since < LIMIT_S:
            return verdict
        return replace_reason(verdict, "FabricFailed", desired)
