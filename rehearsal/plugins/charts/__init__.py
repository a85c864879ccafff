"""Stand-ins for Helm charts that no package registry carries: what a chart's values may say, and
what it then installs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeapi import JsonObject
from rehearsal.plugins.charts import gpu_operator


class NoSuchChart(Exception):
    """The rehearsal has no stand-in for this chart."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One version of one chart."""

    name: str
    version: str
    app_version: str
    repository: str
    check: Callable[[Mapping[str, Any]], Sequence[tuple[str, str]]]
    """Values -> problems, each the path of a key and what is wrong with it."""
    render: Callable[[Mapping[str, Any], str, str], list[JsonObject]]
    """(values, release, namespace) -> manifests. The values have passed `check`."""
    crds: Callable[[], list[JsonObject]]
    """What the chart's crds/ directory holds: installed first, never upgraded, kept by an
    uninstall.
    """
    removes_crds: Callable[[Mapping[str, Any]], bool]
    """Whether an uninstall with these values takes the CRDs along (a hook of the chart)."""


_CHARTS: Sequence[Chart] = (
    Chart(
        name="gpu-operator",
        version=gpu_operator.VERSION,
        app_version=gpu_operator.VERSION,
        repository="https://helm.ngc.nvidia.com/nvidia",
        check=gpu_operator.check,
        render=gpu_operator.render,
        crds=gpu_operator.crds,
        removes_crds=gpu_operator.removes_crds,
    ),
)


def find(name: str, *, repository: str | None, version: str | None) -> Chart:
    """Raises NoSuchChart. version None: the newest one."""
    have = "; ".join(
        f"chart {chart.name!r} {chart.version} of repository {chart.repository}"
        for chart in _CHARTS
    )
    for chart in _CHARTS:
        if chart.name != name or (repository or "").rstrip("/") != chart.repository:
            continue
        if version and version.removeprefix("v") != chart.version.removeprefix("v"):
            raise NoSuchChart(f"the rehearsal has no {name} {version}; it has {chart.version}")
        return chart
    where = f"repository {repository}" if repository else "no repository"
    raise NoSuchChart(
        f"the rehearsal cannot install chart {name!r} of {where}: it has stand-ins only, "
        f"namely {have}"
    )
