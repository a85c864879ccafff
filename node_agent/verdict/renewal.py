"""Decides when the agent ends its process so that the kubelet creates a new container.

The kubelet restarts a container at once the first time, then 10 s after its end, then 20, 40 …
300 s after it; it forgets this when the container has run for 10 minutes, and when the node reboots
(pkg/kubelet, doBackOff; client-go, flowcontrol.Backoff). So the process ends only where a new
container will see more, normally once per boot or change of layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from node_agent.cluster.node import NodeState
from node_agent.cluster.restart_memory import Past, RestartMemory
from node_agent.desired import Desired
from node_agent.nvml.observed import Observation
from node_agent.verdict import stale_devices
from node_agent.verdict.stale_devices import Evidence, Signs
from node_agent.verdict.verify import Verdict
from telemetry import log

CONFIRM_S = 2.0
"""How long a change that the device plugin confirms must be seen before the process ends."""
PATIENCE_S = 60.0
"""The same without a change in this container's life, or without the device plugin's confirmation.
"""
FORGOTTEN_S = 600.0
"""The kubelet forgets earlier restarts of a container that has run for so long."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 300.0


def kubelet_backoff(ends: Sequence[float]) -> tuple[float, float]:
    """When the container started that follows `ends`, and the pause that its end will meet.

    The pause is forgotten `FORGOTTEN_S` after the start. Without ends: (-inf, 0).
    """
    started, pause = float("-inf"), 0.0
    for end in ends:
        waits = 0.0 if end - started >= FORGOTTEN_S else pause
        started = end + waits
        pause = min(_LONGEST_PAUSE_S, waits * 2) or _FIRST_PAUSE_S
    return started, pause


def wait_s(past: Past, digest: str, now: float) -> float:
    """Seconds until the process may end for signs of that digest; 0: at once.

    For signs for which it has ended in vain it never meets the kubelet's pause, and waits twice as
    long each time; else only where the pause is shorter than the time until it is forgotten.
    """
    started, pause = kubelet_backoff(past.ends)
    until_forgotten = max(0.0, started + FORGOTTEN_S - now)
    if times := past.times_in_vain(digest):
        return max(0.0, started + FORGOTTEN_S * 2.0 ** (times - 1) - now)
    return until_forgotten if until_forgotten <= pause else 0.0


@dataclass
class Renewal:
    """Fed with every turn of the agent's loop in which the Node was read.

    Seconds on the machine's monotonic clock.
    """

    desired: Desired
    end: Callable[[], None]
    """Ends the loop after this turn."""
    memory: RestartMemory
    driver_loaded: Callable[[], bool]
    """Whether the machine has a driver, as every container can see it."""
    _first: Signs | None = None
    _changes: str = ""
    """What changed on the node in this container's life, the last of it."""
    _most_gpus: int = 0
    _due: tuple[str, Evidence] | None = None
    """Digest of the signs, and the evidence, that the process would end for."""
    _due_since: float = 0.0
    _said: object = None
    """The last wait that was logged."""

    def consider(
        self, verdict: Verdict, observation: Observation, node: NodeState, now: float
    ) -> Verdict:
        """The verdict itself, or that the container is outdated. Calls `end` when it is time.

        node: as read in this turn; an older one may contradict what has just been observed.
        """
        past = self.memory.of_boot(node.boot_id, now)
        loaded = self.driver_loaded()
        signs = stale_devices.signs_of(node, observation, driver_loaded=loaded)
        self._first = self._first or signs
        self._changes = stale_devices.changes(self._first, signs) or self._changes
        if not stale_devices.sees_too_little(self.desired, observation):
            self.memory.save(replace(past, in_vain=()))
        evidence = self._evidence(verdict, observation, node, loaded=loaded)
        in_vain = past.times_in_vain(signs.digest)
        self._most_gpus = max(self._most_gpus, len(observation.gpus))
        if evidence is None or (in_vain and evidence == "finished"):
            self._due = None
            return verdict
        if self._due != (signs.digest, evidence):
            self._due, self._due_since = (signs.digest, evidence), now
        self._end_if_due(signs.digest, evidence, past, now)
        # After an end in vain, what this container sees is the truth as far as anybody knows.
        if in_vain:
            return verdict
        return stale_devices.outdated(self.desired, verdict, observation, node)

    def _evidence(
        self, verdict: Verdict, observation: Observation, node: NodeState, *, loaded: bool
    ) -> Evidence | None:
        if 0 < len(observation.gpus) < self._most_gpus:
            return None  # no container loses a device node in its life: a GPU has gone
        found = stale_devices.evidence(
            self.desired, verdict, observation, node, driver_loaded=loaded
        )
        if found == "finished" and verdict.reason == "WrongGpuCount" and not self._changes:
            return None  # nothing says that there are more
        return found

    def _end_if_due(self, digest: str, evidence: Evidence, past: Past, now: float) -> None:
        confirmed = evidence == "advertised" and self._changes
        if now - self._due_since < (CONFIRM_S if confirmed else PATIENCE_S):
            return
        facts = {"evidence": evidence, "changes": self._changes or "none seen"}
        if waits := wait_s(past, digest, now):
            if self._said != (said := (digest, len(past.ends))):
                log.info("restart of the container waits", seconds=round(waits), **facts)
                self._said = said
            return
        log.info("container outdated: ending, so that the kubelet creates a new one", **facts)
        self.memory.save(past.with_end(digest, now))
        self.end()
