"""Stand-ins for Helm charts: the values that a chart accepts, and what it installs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts import (
    cluster_autoscaler,
    gpu_operator,
    hami,
    karpenter,
    keda,
    prometheus_stack,
    volcano,
    volcano_device_plugin,
)


class NoSuchChart(Exception):
    """The rehearsal does not have this chart."""


def _no_objects(*_: object) -> list[JsonObject]:
    return []


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One version of one chart."""

    name: str
    version: str
    app_version: str
    repository: str
    check: Callable[[Mapping[str, Any]], Sequence[tuple[str, str]]]
    """Takes values; returns problems as (path of the key, reason)."""
    render: Callable[[Mapping[str, Any], str, str], list[JsonObject]]
    """Takes values that passed `check`, release name and namespace; returns manifests."""
    # What the chart has not, it need not say.
    crds: Callable[[], list[JsonObject]] = list
    """The chart's crds/ directory: installed first, never upgraded, kept by an uninstall."""
    before_upgrade: Callable[[Mapping[str, Any], str], list[JsonObject]] = _no_objects
    """Takes values and namespace; returns the objects of its pre-upgrade hooks, in their order."""
    removed_crds: Callable[[Mapping[str, Any]], list[JsonObject]] = _no_objects
    """Those that a hook of the chart deletes before it is uninstalled with these values."""
    after_delete: Callable[[Mapping[str, Any], str, str], list[JsonObject]] = _no_objects
    """Takes values, release name and namespace; returns the objects of its post-delete hooks."""


_KARPENTER = "oci://public.ecr.aws/karpenter"
_CHARTS: Sequence[Chart] = (
    Chart(
        name="gpu-operator",
        version=gpu_operator.VERSION,
        app_version=gpu_operator.VERSION,
        repository="https://helm.ngc.nvidia.com/nvidia",
        check=gpu_operator.check,
        render=gpu_operator.render,
        crds=gpu_operator.crds,
        before_upgrade=gpu_operator.before_upgrade,
        removed_crds=gpu_operator.removed_crds,
        after_delete=gpu_operator.after_delete,
    ),
    Chart(
        name="cluster-autoscaler",
        version=cluster_autoscaler.VERSION,
        app_version=cluster_autoscaler.APP_VERSION,
        repository="https://kubernetes.github.io/autoscaler",
        check=cluster_autoscaler.check,
        render=cluster_autoscaler.render,
    ),
    Chart(
        name="karpenter",
        version=karpenter.VERSION,
        app_version=karpenter.VERSION,
        repository=_KARPENTER,
        check=karpenter.check,
        render=karpenter.render,
    ),
    Chart(
        name="karpenter-crd",
        version=karpenter.VERSION,
        app_version=karpenter.VERSION,
        repository=_KARPENTER,
        check=karpenter.check_definitions,
        render=karpenter.definitions,
    ),
    Chart(
        name="kube-prometheus-stack",
        version=prometheus_stack.VERSION,
        app_version=prometheus_stack.APP_VERSION,
        repository="https://prometheus-community.github.io/helm-charts",
        check=prometheus_stack.check,
        render=prometheus_stack.render,
        crds=prometheus_stack.crds,
        # Its hooks are the admission webhook's, which `check` refuses.
    ),
    Chart(
        name="keda",
        version=keda.VERSION,
        app_version=keda.VERSION,
        repository="https://kedacore.github.io/charts",
        check=keda.check,
        render=keda.render,
        # Its CRDs are templates, which go with the release.
    ),
    Chart(
        name="hami",
        version=hami.VERSION,
        app_version=hami.VERSION,
        repository="https://project-hami.github.io/HAMi",
        check=hami.check,
        render=hami.render,
    ),
    Chart(
        name="volcano",
        version=volcano.VERSION,
        app_version=volcano.VERSION,
        repository="https://volcano-sh.github.io/helm-charts",
        check=volcano.check,
        render=volcano.render,
        # Its CRDs are templates, too.
    ),
    Chart(
        name="volcano-vgpu-device-plugin",
        version=volcano_device_plugin.VERSION,
        app_version=volcano_device_plugin.VERSION,
        repository="https://project-hami.github.io/volcano-vgpu-device-plugin",
        check=volcano_device_plugin.check,
        render=volcano_device_plugin.render,
    ),
)


def find(name: str, *, repository: str | None, version: str | None) -> Chart:
    """The chart. Raises NoSuchChart. version: None for the latest. name: with the
    repository in it where that is a registry, oci://….
    """
    if name.startswith("oci://") and not repository:
        repository, _, name = name.rpartition("/")
    have = "; ".join(
        f"chart {chart.name!r} {chart.version} of repository {chart.repository}"
        for chart in _CHARTS
    )
    for chart in _CHARTS:
        if chart.name != name or (repository or "").rstrip("/") != chart.repository:
            continue
        if version and version.removeprefix("v") != chart.version.removeprefix("v"):
            raise NoSuchChart(f"the rehearsal does not have {name} {version}; use {chart.version}")
        return chart
    where = f"repository {repository}" if repository else "no repository"
    raise NoSuchChart(
        f"the rehearsal cannot install chart {name!r} of {where}: it downloads no charts and has "
        f"only {have}"
    )
