"""The catalog as a whole, with charts, known issues, and what is deliberately excluded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from infra.catalog.gpus import Gpu, NamedConfig
from infra.catalog.machines import Accelerator, Cloud, Machine


class CatalogError(Exception):
    """The catalog is inconsistent: a bug of slicewright, not a problem of a stack file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Chart:
    """A version of the GPU operator chart."""

    version: str
    driver: str
    """The driver that it installs with `driver.enabled` and no version."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class DriverIssue:
    """A known issue of drivers that are otherwise new enough."""

    drivers: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    """Empty: all."""
    nodes: Literal["partitioned", "mixed"]
    """All nodes with partitions, or only those that also have whole GPUs."""
    what: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class DevicePluginIssue:
    """Profiles that older versions of NVIDIA's device plugin do not advertise separately."""

    version: str
    """The first version that does."""
    chart: str
    """The first GPU operator chart with that version."""
    endings: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class DcgmField:
    """What dcgm-exporter can export."""

    name: str
    kind: Literal["gauge", "counter", "label"]
    """Type of the Prometheus metric; `label` puts it on all metrics."""
    meaning: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Exclusion:
    """Machine types or GPUs that exist and are deliberately not in the catalog."""

    names: tuple[str, ...]
    """Compared without case, spaces and dashes; a last `*` stands for any text."""
    cloud: Cloud | None = None
    """For machine types; None for GPUs."""
    reason: str
    """Follows the name in a message."""
    instead: tuple[str, ...]
    """Similar names in the catalog."""
    source: str

    def has(self, name: str) -> bool:
        asked = _spelled(name)
        return any(
            asked.startswith(own[:-1]) if own.endswith("*") else asked == own
            for own in map(_spelled, self.names)
        )


def _spelled(name: str) -> str:
    return name.casefold().replace(" ", "").replace("-", "")


@dataclass(frozen=True, kw_only=True, eq=False)
class Catalog:
    gpus: Mapping[str, Gpu]
    machines: Mapping[tuple[Cloud, str], Machine]
    accelerators: Mapping[str, Accelerator]
    named_configs: Mapping[str, Mapping[str, NamedConfig]]
    """GPU -> the GPU operator's default configs for it, by name."""
    charts: Mapping[str, Chart]
    """By version."""
    driver_issues: tuple[DriverIssue, ...]
    device_plugin_issues: tuple[DevicePluginIssue, ...]
    exclusions: tuple[Exclusion, ...]
    dcgm_fields: Mapping[str, DcgmField]
    """By name."""

    def why_excluded(self, name: str, cloud: Cloud | None = None) -> Exclusion | None:
        """The row of a machine type of `cloud`, or of a GPU if None; None if there is none."""
        return next((row for row in self.exclusions if row.cloud == cloud and row.has(name)), None)

    def machine_names(self, cloud: Cloud) -> tuple[str, ...]:
        return tuple(name for c, name in self.machines if c == cloud)
