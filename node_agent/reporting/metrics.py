"""The agent's metrics, in base units. An enumeration is a 0/1 series per state."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from slicewright.apis.desired_state import Desired
from slicewright.apis.reasons.agent import MATCH, REASONS
from slicewright.apis.version import VERSION
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Observation, ObservedGpu
from slicewright.node_agent.reporting import gpu_metrics
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.telemetry.prometheus import Family, Histogram, Sample, labels, lines

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
        self._remember_gpus(observation, thorough=thorough)
        families = (
            _BUILD,
            *_verdict_families(verdict),
            *self._partitions(observation, verdict),
            *_node_families(observation, node),
            *self._agent_families(),
            _xid_source(xid_log_up),
            gpu_metrics.xids(self._gpus),
            *self._health,
        )
        self.text = "\n".join(line for family in families for line in lines(family)) + "\n"

    def _remember_gpus(self, observation: Observation, *, thorough: bool) -> None:
        if thorough:
            self._health = tuple(gpu_metrics.families(observation))
            self._gpus = observation.gpus
        # Only a thorough probe reads a GPU's minor number, which is one of the labels.
        counts = {gpu.uuid: gpu.xid_counts for gpu in observation.gpus}
        self._gpus = tuple(
            replace(gpu, xid_counts=counts.get(gpu.uuid, gpu.xid_counts)) for gpu in self._gpus
        )

    def _agent_families(self) -> Iterator[Family]:
        """Metrics of the agent's own work: probes, their errors, and reports."""
        yield Family(
            "slicewright_probe_duration_seconds",
            "histogram",
            "Duration of a probe of the GPUs.",
            self._probes.samples(),
        )
        errors = (
            Sample(labels(code=str(code)), count) for code, count in sorted(self._errors.items())
        )
        yield Family(
            "slicewright_probe_errors_total",
            "counter",
            "Probes with an NVML error, by its return code.",
            tuple(errors),
        )
        reports = (Sample(labels(result=result), count) for result, count in self._reports.items())
        yield Family(
            "slicewright_reports_total",
            "counter",
            "Writes of the report to the API server.",
            tuple(reports),
        )
        if self._last_success is not None:
            yield Family(
                "slicewright_last_success_timestamp_seconds",
                "gauge",
                "When the driver last answered, since the epoch.",
                (Sample("", round(self._last_success, 3)),),
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


_BUILD = Family(
    "slicewright_build_info",
    "gauge",
    "Always 1; the agent's version and its Python's.",
    (Sample(labels(version=VERSION, python=_PYTHON), 1),),
)


def _verdict_families(verdict: Verdict) -> Iterator[Family]:
    outcomes = (
        Sample(labels(verdict=outcome), int(verdict.verdict == outcome))
        for outcome in ("Match", "Mismatch", "Unknown")
    )
    yield Family("slicewright_verdict", "gauge", "1 for the current verdict.", tuple(outcomes))
    reasons = {check.reason for check in verdict.checks} - {MATCH}
    codes = [code for code, reason in REASONS.items() if reason.verdict != "Match"]
    yield Family(
        "slicewright_mismatch",
        "gauge",
        "1 for every reason that keeps the node from matching.",
        tuple(Sample(labels(reason=code), int(code in reasons)) for code in codes),
    )


def _node_families(observation: Observation, node: NodeState | None) -> Iterator[Family]:
    modes = (
        Sample(labels(gpu=str(gpu.index), current=gpu.mig, pending=gpu.mig_pending), 1)
        for gpu in observation.gpus
    )
    yield Family(
        "slicewright_mig_mode",
        "gauge",
        "Always 1; MIG mode now and after the next reset, per GPU.",
        tuple(modes),
    )
    if node is not None:
        resources = sorted(node.allocatable.items())
        yield Family(
            "slicewright_allocatable",
            "gauge",
            "Allocatable quantity of an extended resource.",
            tuple(Sample(labels(resource=name), quantity) for name, quantity in resources),
        )


def _xid_source(up: bool) -> Family:
    return Family(
        "slicewright_xid_source_up",
        "gauge",
        "1 if the kernel log can be read for Xids.",
        (Sample("", int(up)),),
    )
