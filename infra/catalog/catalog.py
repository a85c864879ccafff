"""The catalog as a whole, with charts, known issues and deliberate exclusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from slicewright.infra.catalog.gpus import Gpu, NamedConfig
from slicewright.infra.catalog.machines import Accelerator, Cloud, Machine


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
    """The affected GPUs. Empty: all."""
    nodes: Literal["partitioned", "mixed"]
    """All nodes with partitions, or only nodes that also have whole GPUs."""
    defect: str
    """Follows the driver in a message."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageIssue:
    """Releases of EKS images that are broken for the GPUs of some machine types."""

    images: tuple[str, ...]
    """AMI types."""
    machines: tuple[str, ...]
    """Machine types. A final `*` matches any text."""
    first: str | None = None
    """The first affected release: a date for Amazon Linux, a version for Bottlerocket."""
    fixed: str | None = None
    """The first release without the defect. None: none is known."""
    good: str | None = None
    """The last release before the defect, if none is known after it."""
    certain: bool
    """True if the image's makers confirm it, false if users report it."""
    defect: str
    """Follows the release in a message."""
    source: str

    def affects(self, image: str, machine: str, release: str) -> bool:
        """True for an affected release."""
        if image not in self.images or not any(fnmatchcase(machine, m) for m in self.machines):
            return False
        number = _release_number(release)
        begun = self.first is None or number >= _release_number(self.first)
        return begun and (self.fixed is None or number < _release_number(self.fixed))


def _release_number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


@dataclass(frozen=True, kw_only=True, eq=False)
class DevicePluginIssue:
    """Profiles that older versions of NVIDIA's device plugin do not advertise separately."""

    version: str
    """The first version that advertises them."""
    chart: str
    """The first GPU operator chart with that version."""
    endings: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class DcgmField:
    """A field that dcgm-exporter can export."""

    name: str
    kind: Literal["gauge", "counter", "label"]
    """Type of the Prometheus metric. `label` adds the field to all metrics."""
    meaning: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Exclusion:
    """Machine types or GPUs that exist and are deliberately not in the catalog."""

    names: tuple[str, ...]
    """Compared without case, spaces and dashes. A final `*` matches any text."""
    cloud: Cloud | None = None
    """The cloud of machine types, None for GPUs."""
    reason: str
    """Follows the name in a message."""
    instead: tuple[str, ...]
    """Similar names in the catalog."""
    source: str

    def has(self, name: str) -> bool:
        spelled = _normalize(name)
        return any(
            spelled.startswith(pattern[:-1]) if pattern.endswith("*") else spelled == pattern
            for pattern in map(_normalize, self.names)
        )


def _normalize(name: str) -> str:
    return name.casefold().replace(" ", "").replace("-", "")


@dataclass(frozen=True, kw_only=True, eq=False)
class Catalog:
    gpus: Mapping[str, Gpu]
    machines: Mapping[tuple[Cloud, str], Machine]
    accelerators: Mapping[str, Accelerator]
    named_configs: Mapping[str, Mapping[str, NamedConfig]]
    """GPU -> the GPU operator's default configs for it, by name."""
    charts: Mapping[str, Chart]
    """Version -> chart."""
    driver_issues: tuple[DriverIssue, ...]
    image_issues: tuple[ImageIssue, ...]
    device_plugin_issues: tuple[DevicePluginIssue, ...]
    exclusions: tuple[Exclusion, ...]
    dcgm_fields: Mapping[str, DcgmField]
    """Name -> field."""

    def why_excluded(self, name: str, cloud: Cloud | None = None) -> Exclusion | None:
        """The row that excludes a machine type of `cloud`, or a GPU if `cloud` is None."""
        return next((row for row in self.exclusions if row.cloud == cloud and row.has(name)), None)

    def machine_names(self, cloud: Cloud) -> tuple[str, ...]:
        return tuple(name for c, name in self.machines if c == cloud)
