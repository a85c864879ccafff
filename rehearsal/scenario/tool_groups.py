"""Which tools a rehearsal needs besides those that every one does."""

from __future__ import annotations

from collections.abc import Iterable

from slicewright.infra.plan import AdapterPlan, FleetPlan, KedaPlan
from slicewright.infra.stack_file import ExistingPrometheus, PrometheusStack, TritonWorkload
from slicewright.rehearsal.host.toolchain import workload_tools


def of(fleets: Iterable[FleetPlan]) -> tuple[str, ...]:
    """Groups of rehearsal/host/toolchain/workload_tools.py."""
    found = set()
    for fleet in fleets:
        if any(isinstance(one.workload, TritonWorkload) for one in fleet.deployments):
            found.add(workload_tools.TRITON)
        if fleet.monitoring is not None and isinstance(
            fleet.monitoring.settings, PrometheusStack | ExistingPrometheus
        ):
            found.add("monitoring")
        scaler = fleet.pod_autoscaling
        if isinstance(scaler, KedaPlan) and not scaler.existing:
            found.add("autoscaling")
        if isinstance(scaler, AdapterPlan):
            found.add("custom-metrics")
        if fleet.engine is not None and fleet.engine.provider == "volcano":
            found.add(workload_tools.VOLCANO)
    return tuple(sorted(found))
