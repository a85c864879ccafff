"""When a container that ended may start again, and an image that did not come is asked for."""

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


@dataclass(frozen=True, kw_only=True)
class PullPauses:
    """How long the kubelet waits before it pulls an image that it did not get once more.

    Source: k8s.io/kubernetes v1.36.2, pkg/kubelet/kubelet.go: imageBackOffPeriod, MaxImageBackOff.
    """

    first_s: float = INITIAL_S
    longest_s: float = LONGEST_S

    def after(self, failures: int) -> float:
        """Seconds after that many failures in a row."""
        return min(self.longest_s, self.first_s * 2.0 ** (min(failures, 32) - 1))


def go_duration(seconds: float) -> str:
    """Whole seconds as Go writes them, and so the kubelet in its messages: `40s`, `1m20s`, `5m0s`.

    Shorter pauses, which only tests have, with their fraction.
    """
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
