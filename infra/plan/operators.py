"""Settings of the GPU Operator that cannot work, whatever the pools are."""

from __future__ import annotations

from collections.abc import Iterable

from infra import catalog, spec
from infra.plan.findings import Checked, nearest, refuse
from infra.plan.fleet import AnyCloud

_AT = "gpu_operator"


def resolved(operator: spec.GpuOperator, cloud: AnyCloud) -> spec.GpuOperator:
    """With the container toolkit as the nodes' images need it, where the stack file does not say.

    GKE's images have none that the operator can use; EKS's have their own, and existing nodes are
    taken as they are. Source: NVIDIA GPU operator docs, "GKE"; EKS AMI docs.
    """
    if operator.toolkit.enabled is not None:
        return operator
    toolkit = operator.toolkit.model_copy(update={"enabled": cloud == "gke"})
    return operator.model_copy(update={"toolkit": toolkit})


def check_cos_driver(operator: spec.GpuOperator, image_types: Iterable[str]) -> Checked[None]:
    """The operator has no driver container for Container-Optimized OS; Google installs it there."""
    if operator.driver.enabled and "COS_CONTAINERD" in image_types:
        yield refuse(
            (_AT, "driver", "enabled"),
            "NVIDIA publishes no container with a driver for Container-Optimized OS; Google's "
            "driver installer has it",
            "write false, or image_type: UBUNTU_CONTAINERD in every pool that the operator manages",
            "NVIDIA/gpu-operator #1623",
        )


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
