"""The releases of cluster-autoscaler, and the chart that installs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from infra.catalog.toml_rows import read

_HERE = Path(__file__).parent


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
