"""The GPUs as an agent sees them in one turn: a probe, with the Xids of the kernel log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.prober import Prober
from slicewright.node_agent.xids.xid_watch import XidWatch
from slicewright.telemetry import log


@dataclass(frozen=True, kw_only=True)
class Probe:
    observation: Observation
    thorough: bool = False
    took_s: float | None = None
    """None: the GPUs were not probed."""


class GpuProbes:
    """Probes the GPUs and reads Xids, thoroughly every `thorough_every_s` seconds."""

    def __init__(
        self,
        prober: Prober,
        kernel_log: Path,
        *,
        thorough_every_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._prober = prober
        self._xids = XidWatch(kernel_log)
        self._thorough_every_s = thorough_every_s
        self._monotonic = monotonic
        self._thorough_at = float("-inf")
        self._unmeasured: set[str] = set()

    @property
    def xid_log_up(self) -> bool:
        return self._xids.up

    def probe(self, *, allow_thorough: bool = True) -> Probe:
        started = self._monotonic()
        serious = self._xids.read()
        thorough = allow_thorough and (
            serious or started - self._thorough_at >= self._thorough_every_s
        )
        observation = self._xids.annotate(self._prober.probe(thorough=thorough))
        if thorough:
            self._thorough_at = started
        self._log_unmeasured(observation)
        took_s = self._monotonic() - started
        return Probe(observation=observation, thorough=thorough, took_s=took_s)

    def skip(self) -> Probe:
        """Does not call the driver, but reads Xids."""
        self._xids.read()
        return Probe(observation=Observation())

    def close(self) -> None:
        self._xids.close()

    def _log_unmeasured(self, observation: Observation) -> None:
        """Logs each reason once, as it repeats every minute."""
        for gpu in observation.gpus:
            failure = gpu.utilization_failure
            why = f"{failure.call}: {failure.text}" if failure else None
            if why and why not in self._unmeasured:
                self._unmeasured.add(why)
                log.warning("utilization not measured", gpu=gpu.index, why=why)
