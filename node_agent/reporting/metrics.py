"""The agent's metrics, in base units. An enumeration is a 0/1 series per state."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from apis.desired_state import Desired
from apis.reasons.agent import MATCH, REASONS
from apis.version import VERSION
from node_agent.cluster.node import NodeState
from node_agent.nvml.observed import Observation, ObservedGpu
from node_agent.reporting import gpu_metrics
from node_agent.verdict.verify import Verdict
from telemetry.prometheus import Family, Histogram, Sample, labels, lines

_PYTHON = sys.version.partition(" ")[0]

# A probe takes milliseconds on a healthy node and up to its deadline on a broken one.
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass
class Metrics:
    """Written by the loop, read by the HTTP server's threads: `text` is replaced as a whole."""

    desired: Desired
    text: str = ""
    _probes: Histogram = field(default_factory=lambda: Histogram(_BUCKETS_S))
    _errors: dict[int, int] = field(default_factory=dict)
    _reports: dict[str, int] = field(default_factory=lambda: {"written": 0, "failed": 0})
    _last_success: float | None = None
    _health: tuple[Family, ...] = ()
    """Metrics of the last thorough probe."""
    _gpus: tuple[ObservedGpu, ...] = ()
    """GPUs of the last thorough probe, with the Xids of the latest probe."""

    def count_report(self, *, written: bool) -> None:
        self._reports["written" if written else "failed"] += 1

    def update(
        self,
        observation: Observation,
        verdict: Verdict,
        node: NodeState | None,
        *,
        took_s: float | None,
        at: float,
        thorough: bool = False,
        xid_log_up: bool = False,
    ) -> None:
        """Updates the metrics. Call it after every turn.

        took_s: duration of the probe alone, None without a probe. at: seconds since the epoch.
        xid_log_up: whether the kernel log can be read.
        """
        if took_s is not None:
            self._probes.observe(took_s)
            if observation.failure is None:
                self._last_success = at
        for failure in (observation.failure, *(gpu.failure for gpu in observation.gpus)):
            if failure:
                self._errors[failure.code] = self._errors.get(failure.code, 0) + 1
        if thorough:
            self._health = tuple(gpu_metrics.families(observation))
            self._gpus = observation.gpus
        # Only a thorough probe reads a GPU's minor number, which is one of the labels.
        counted = {gpu.uuid: gpu.xid_counts for gpu in observation.gpus}
        self._gpus = tuple(
            replace(gpu, xid_counts=counted.get(gpu.uuid, gpu.xid_counts)) for gpu in self._gpus
        )
        source = Sample("", int(xid_log_up))
        up = Family(
            "slicewright_xid_source_up",
            "gauge",
            "1 if the kernel log can be read for Xids.",
            (source,),
        )
        always = self._families(observation, verdict, node)
        xids = gpu_metrics.xids(self._gpus)
        families = (*always, up, xids, *self._health)
        self.text = "\n".join(line for family in families for line in lines(family)) + "\n"

    def _families(
        self, observation: Observation, verdict: Verdict, node: NodeState | None
    ) -> Iterator[Family]:
        build = Sample(labels(version=VERSION, python=_PYTHON), 1)
        yield Family(
            "slicewright_build_info",
            "gauge",
            "Always 1; the agent's version and its Python's.",
            (build,),
        )
        verdicts = tuple(
            Sample(labels(verdict=outcome), int(verdict.verdict == outcome))
            for outcome in ("Match", "Mismatch", "Unknown")
        )
        yield Family("slicewright_verdict", "gauge", "1 for the current verdict.", verdicts)
        reasons = {check.reason for check in verdict.checks} - {MATCH}
        codes = [code for code, reason in REASONS.items() if reason.verdict != "Match"]
        mismatch = tuple(Sample(labels(reason=code), int(code in reasons)) for code in codes)
        yield Family(
            "slicewright_mismatch",
            "gauge",
            "1 for every reason that keeps the node from matching.",
            mismatch,
        )
        yield from self._partitions(observation, verdict)
        modes = tuple(
            Sample(labels(gpu=str(g.index), current=g.mig, pending=g.mig_pending), 1)
            for g in observation.gpus
        )
        yield Family(
            "slicewright_mig_mode",
            "gauge",
            "Always 1; MIG mode now and after the next reset, per GPU.",
            modes,
        )
        if node is not None:
            advertised = tuple(
                Sample(labels(resource=name), count)
                for name, count in sorted(node.allocatable.items())
            )
            yield Family(
                "slicewright_allocatable",
                "gauge",
                "Allocatable quantity of an extended resource.",
                advertised,
            )
        yield Family(
            "slicewright_probe_duration_seconds",
            "histogram",
            "Duration of a probe of the GPUs.",
            self._probes.samples(),
        )
        errors = tuple(
            Sample(labels(code=str(code)), met) for code, met in sorted(self._errors.items())
        )
        yield Family(
            "slicewright_probe_errors_total",
            "counter",
            "Probes with an NVML error, by its return code.",
            errors,
        )
        sent = tuple(
            Sample(labels(result=result), count) for result, count in self._reports.items()
        )
        yield Family(
            "slicewright_reports_total", "counter", "Writes of the report to the API server.", sent
        )
        if self._last_success is not None:
            last = (Sample("", round(self._last_success, 3)),)
            yield Family(
                "slicewright_last_success_timestamp_seconds",
                "gauge",
                "When the driver last answered, since the epoch.",
                last,
            )

    def _partitions(self, observation: Observation, verdict: Verdict) -> Iterator[Family]:
        desired = [
            (index, profile, count)
            for entry in self.desired.gpus
            for index in (range(self.desired.gpu_count) if entry.index == "all" else (entry.index,))
            for profile, count in sorted(entry.instances.items())
        ]
        observed = [
            (gpu.index, profile, count)
            for gpu, instances in zip(observation.gpus, verdict.instances, strict=True)
            for profile, count in sorted(instances.items())
        ]
        for name, rows, text in (("desired", desired, "wanted"), ("observed", observed, "found")):
            samples = tuple(
                Sample(labels(gpu=str(index), profile=profile), count)
                for index, profile, count in rows
            )
            yield Family(
                f"slicewright_partitions_{name}",
                "gauge",
                f"MIG devices {text}, per GPU and profile.",
                samples,
            )
