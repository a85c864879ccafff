"""When a container that ended may start again."""

from __future__ import annotations

from dataclasses import dataclass

INITIAL_S = 10.0
LONGEST_S = 300.0


@dataclass
class RestartBackoff:
    """The kubelet's rule: at once, then after 10 s, doubling to 5 min; reset after running 10 min.

    Source: pkg/kubelet, doBackOff, and client-go's flowcontrol.Backoff: the first restart makes an
    entry, the second waits for it, and twice the longest pause resets it.
    """

    longest_s: float = LONGEST_S
    """The kubelet's setting crashLoopBackOff.maxContainerRestartPeriod."""
    pause_s: float = 0.0

    def next(self, ran_for_s: float) -> float:
        """Seconds from the container's end to its next start."""
        if ran_for_s >= 2 * LONGEST_S:
            self.pause_s = 0.0
        pause = self.pause_s
        self.pause_s = min(self.longest_s, INITIAL_S if pause == 0 else pause * 2)
        return pause
