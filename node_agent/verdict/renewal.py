"""Decides when the agent ends its process so that the kubelet creates a new container.

The kubelet restarts a container at once the first time, then 10 s after its end, then after 20, 40
… 300 s. It resets this after the container has run for 10 minutes, and when the node reboots
(pkg/kubelet, doBackOff; client-go, flowcontrol.Backoff). So the process ends only if a new
container will see more, normally once per boot or change of layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slicewright.apis.desired_state import Desired
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.cluster.restart_memory import Past, RestartMemory
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.verdict import stale_devices
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.stale_devices import Evidence, Signs
from slicewright.telemetry import log

CONFIRM_S = 2.0
"""Time that a change must last before the process ends, if the device plugin confirms it."""
PATIENCE_S = 60.0
"""The same time for a change before this container, or one without the plugin's confirmation."""
FORGOTTEN_S = 600.0
"""The kubelet forgets earlier restarts of a container after this run time."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 300.0
_OF_CUDA: Final = "cuda:"
"""Start of the digest of ends because CUDA refused the container."""
_TRIED_ONCE: Final = frozenset({"finished", "cuda"})
"""Evidence that justifies a single new container for the same signs."""


def kubelet_backoff(ends: Sequence[float]) -> tuple[float, float]:
    """The start of the container after `ends`, and the kubelet's pause after its end.

    The pause is forgotten `FORGOTTEN_S` after the start. Without ends: (-inf, 0).
    """
    started, pause = float("-inf"), 0.0
    for end in ends:
        waits = 0.0 if end - started >= FORGOTTEN_S else pause
        started = end + waits
        pause = min(_LONGEST_PAUSE_S, waits * 2) or _FIRST_PAUSE_S
    return started, pause


def wait_s(past: Past, digest: str, now: float) -> float:
    """Seconds until the process may end for signs with that digest, 0 for at once.

    After an end in vain for the same signs it avoids the kubelet's pause, and waits twice as long
    each time. Else it accepts the pause only if it is shorter than the time until it is forgotten.
    """
    started, pause = kubelet_backoff(past.ends)
    until_forgotten = max(0.0, started + FORGOTTEN_S - now)
    if times := past.times_in_vain(digest):
        return max(0.0, started + FORGOTTEN_S * 2.0 ** (times - 1) - now)
    return until_forgotten if until_forgotten <= pause else 0.0


@dataclass
class Renewal:
    """Considers every turn of the agent's loop that has read the Node.

    Seconds on the machine's monotonic clock.
    """

    desired: Desired
    end: Callable[[], None]
    """Ends the loop after this turn."""
    memory: RestartMemory
    driver_loaded: Callable[[], bool]
    """True if the machine has a driver, as seen by every container."""
    _first: Signs | None = None
    _changes: str = ""
    """The latest changes of the node in this container's life."""
    _most_gpus: int = 0
    _matched_boot: str = ""
    """The boot of this container's last match, empty before its first one."""
    _due: tuple[str, Evidence] | None = None
    """Digest of the signs and the evidence that would end the process."""
    _due_since: float = 0.0
    _logged_wait: object = None
    """The last wait that was logged."""

    def consider(
        self,
        verdict: Verdict,
        observation: Observation,
        node: NodeState,
        now: float,
        *,
        nvml_matches: bool | None = None,
        cuda_refuses: bool = False,
    ) -> Verdict:
        """The verdict, or a verdict that the container is outdated. Calls `end` when it is time.

        node: read in this turn, as an older Node may contradict the observation. nvml_matches: True
        if the verdict was a match before the compute proof. cuda_refuses: True if NVML answers, and
        CUDA does not accept this container.
        """
        if nvml_matches if nvml_matches is not None else verdict.verdict == "Match":
            self._matched_boot = node.boot_id
        past = self.memory.past_of(node.boot_id, now)
        loaded = self.driver_loaded()
        signs = stale_devices.signs_of(node, observation, driver_loaded=loaded)
        self._first = self._first or signs
        self._changes = stale_devices.changes(self._first, signs) or self._changes
        if not stale_devices.sees_too_little(self.desired, observation):
            self._forget_ends_in_vain(past, computes=verdict.verdict == "Match")
        evidence = self._evidence(verdict, observation, node, loaded=loaded)
        digest = signs.digest
        if cuda_refuses:
            evidence, digest = "cuda", f"{_OF_CUDA}{signs.digest}"
        in_vain = past.times_in_vain(digest)
        self._most_gpus = max(self._most_gpus, len(observation.gpus))
        if evidence is None or (in_vain and evidence in _TRIED_ONCE):
            self._due = None
            return verdict
        if self._due != (digest, evidence):
            self._due, self._due_since = (digest, evidence), now
        self._end_if_due(digest, evidence, past, now)
        # After an end in vain, this container's view is the best available.
        if in_vain:
            return verdict
        return stale_devices.outdated(self.desired, verdict, observation, node)

    def _forget_ends_in_vain(self, past: Past, *, computes: bool) -> None:
        """Forgets the ends that were in vain, as this container sees every device. An end because
        of CUDA counts until the devices compute.
        """
        of_cuda = tuple(end for end in past.in_vain if end[0].startswith(_OF_CUDA))
        self.memory.save(replace(past, in_vain=() if computes else of_cuda))

    def _evidence(
        self, verdict: Verdict, observation: Observation, node: NodeState, *, loaded: bool
    ) -> Evidence | None:
        if 0 < len(observation.gpus) < self._most_gpus:
            return None  # a container that loses its devices loses all: a GPU has gone
        evidence = stale_devices.evidence(
            self.desired, verdict, observation, node, driver_loaded=loaded
        )
        if evidence is None and self._matched_boot == node.boot_id:
            lost = stale_devices.lost_devices(self.desired, verdict, observation, node)
            return "lost" if lost else None
        if evidence == "finished" and verdict.reason == "WrongGpuCount" and not self._changes:
            return None  # no sign of more GPUs
        return evidence

    def _end_if_due(self, digest: str, evidence: Evidence, past: Past, now: float) -> None:
        confirmed = evidence == "advertised" and self._changes
        if now - self._due_since < (CONFIRM_S if confirmed else PATIENCE_S):
            return
        facts = {"evidence": evidence, "changes": self._changes or "none seen"}
        if waits := wait_s(past, digest, now):
            if self._logged_wait != (wait := (digest, len(past.ends))):
                log.info("restart of the container waits", seconds=round(waits), **facts)
                self._logged_wait = wait
            return
        log.info("container outdated: ending, so that the kubelet creates a new one", **facts)
        self.memory.save(past.add_end(digest, now))
        self.end()
