"""The releases of cluster-autoscaler and of Karpenter, and the charts that install them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from slicewright.infra.catalog.toml_rows import read

_HERE = Path(__file__).parent / "data"


@dataclass(frozen=True, kw_only=True)
class AutoscalerReleases:
    chart: str
    """Version of the chart."""
    images: Mapping[str, str]
    """Minor version of Kubernetes -> tag of the image."""
    charts: Mapping[str, str]
    """Minor version of Kubernetes -> the oldest version of the chart that serves it."""


@cache
def autoscaler_releases() -> AutoscalerReleases:
    raw = read(_HERE, "autoscaler.toml")
    return AutoscalerReleases(
        chart=raw["chart"],
        images=MappingProxyType(raw["images"]),
        charts=MappingProxyType(raw["charts"]),
    )


@dataclass(frozen=True, kw_only=True)
class KarpenterRelease:
    chart: str
    """Version of both charts, and of the controller."""
    oldest_chart: str
    """The oldest version with the objects that slicewright writes."""
    newest_kubernetes: str
    """Minor version."""


@cache
def karpenter_release() -> KarpenterRelease:
    raw = read(_HERE, "autoscaler.toml")["karpenter"]
    return KarpenterRelease(**{k: v for k, v in raw.items() if k != "source"})
