"""Settings of the GPU Operator that cannot work, whatever the pools are."""

from __future__ import annotations

from infra import catalog, spec
from infra.plan.findings import Checked, nearest, refuse

_AT = "gpu_operator"


def check_operator(operator: spec.GpuOperator) -> Checked[None]:
    """Refuses fields that dcgm-exporter lacks, and settings that something else makes void."""
    exporter = operator.dcgm_exporter
    known = catalog.load().dcgm_fields
    for i, name in enumerate(exporter.metrics):
        if name not in known:
            yield refuse(
                (_AT, "dcgm_exporter", "metrics", i),
                f"{name} is no field of DCGM that the catalog knows; the exporter would not start",
                nearest(name, tuple(known)),
                next(iter(known.values())).source,
            )
    if not exporter.enabled and exporter.service_monitor.enabled:
        yield refuse(
            (_AT, "dcgm_exporter", "service_monitor", "enabled"),
            "there is nothing to monitor: dcgm_exporter.enabled is false",
            "leave one of them out",
        )
    if operator.chart_path is not None and "repository" in operator.model_fields_set:
        yield refuse(
            (_AT, "repository"),
            "is not used: chart_path names the chart",
            "leave one of them out",
            "Helm docs, charts",
            in_key=True,
        )
