"""When a container that ended may start again."""

from __future__ import annotations

from dataclasses import dataclass

INITIAL_S = 10.0
LONGEST_S = 300.0


@dataclass
class RestartBackoff:
    """The kubelet's rule: the first restart at once, then 10 s after the end, doubling to 5 min; 10
    min of running reset it.

    Source: pkg/kubelet, doBackOff and client-go's flowcontrol.Backoff (an entry is made by the
    first restart and waited for by the second; it is reset after twice the longest pause).
    """

    pause_s: float = 0.0

    def next(self, ran_for_s: float) -> float:
        """Seconds to wait from the container's end before it starts again."""
        if ran_for_s >= 2 * LONGEST_S:
            self.pause_s = 0.0
        pause = self.pause_s
        self.pause_s = INITIAL_S if pause == 0 else min(LONGEST_S, pause * 2)
        return pause
