"""The row types of the catalog: frozen, compared and hashed by identity.

What no source states is None, which means unknown, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

Cloud = Literal["gke", "eks"]
Architecture = Literal["amd64", "arm64"]
Capacity = Literal["on-demand", "spot", "flex-start", "queued", "reservation", "capacity-block"]


class CatalogError(Exception):
    """The catalog is inconsistent: a bug of slicewright, not a problem of a stack file."""


def driver_order(version: str) -> tuple[int, ...]:
    """Sort key of driver versions."""
    return tuple(int(part) for part in version.split("."))


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """A kind of GPU instance: what it takes on every GPU of a family, where its names differ."""

    kind: str
    id: int
    """NVML's GPU-instance profile ID, the number that `nvidia-smi mig -cgi` takes."""
    nvml: int
    """NVML's constant NVML_GPU_INSTANCE_PROFILE_…, which its calls take; differs from `id`."""
    starts: tuple[int, ...]
    """Possible first memory slots."""
    size: int
    """Memory slots occupied."""
    compute: int
    """Compute slices occupied."""
    most: int
    """Maximum number of instances of this kind on one GPU."""
    engines: Mapping[str, int]
    """Media engines that it takes, of those in `Family.engines`."""
    graphics: bool = False
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """GPUs with the same kinds of instances and placements."""

    name: str
    slots: int
    """Memory slots of the GPU."""
    compute: int
    """Compute slices of the GPU."""
    engines: Mapping[str, int]
    """Media engines that can run out before memory and compute -> how many the GPU has."""
    compute_instances: Mapping[int, Mapping[int, int]]
    """Slices of a GPU instance -> slices of a compute instance -> how many fill it."""
    kinds: Mapping[str, Kind]
    balanced: Mapping[str, int]
    """Kind -> instances of NVIDIA's layout `all-balanced`."""
    source: str


@dataclass(frozen=True, kw_only=True)
class Engines:
    """Hardware engines of an instance, as NVML counts them."""

    copy: int | None
    decoders: int
    encoders: int
    jpegs: int
    ofas: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """A MIG profile of one GPU. Names are not unique: `1g.10gb` differs between GPUs."""

    name: str
    kind: Kind
    memory_mib: int | None
    """Usable memory. It varies slightly by board and driver, so compare with a tolerance."""
    sms: int | None
    engines: Engines | None
    minimum_driver: str | None = None
    """Oldest driver with the profile, if newer than the GPU's own minimum."""
    compute_instances: Mapping[str, int]
    """Compute instance profiles with fewer slices than the GPU instance: `1c.3g.20gb` -> 3."""
    also: tuple[str, ...] = ()
    """Other names that some drivers use."""
    source: str

    @property
    def memory_gib(self) -> float | None:
        return None if self.memory_mib is None else self.memory_mib / 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Together:
    """Kinds that together on one GPU need a newer driver than each alone."""

    kinds: frozenset[str]
    minimum_driver: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Gpu:
    """A GPU model. Without `family` it has no MIG, only time-slicing and MPS."""

    name: str
    architecture: Literal["turing", "ampere", "ada", "hopper", "blackwell"]
    products: tuple[str, ...]
    """NVML's names of the model."""
    pci_ids: tuple[str, ...]
    """`0xDDDDVVVV`, as in NVML's pciDeviceId and mig-parted's device-filter."""
    memory_mib: int
    """Total memory as reported by NVML."""
    sms: int | None
    minimum_driver: str
    """Oldest driver with MIG on this model; without MIG, the oldest known to support the model."""
    family: Family | None = None
    profiles: Mapping[str, Profile]
    together: tuple[Together, ...] = ()
    source: str

    def __repr__(self) -> str:
        return f"Gpu({self.name})"

    @property
    def mode_change_resets(self) -> bool:
        """Whether changing the MIG mode needs a GPU reset, in a VM usually a reboot.

        Source: NVIDIA MIG user guide, Ampere.
        """
        return self.family is not None and self.architecture == "ampere"

    def balanced(self) -> Mapping[str, int]:
        """NVIDIA's layout `all-balanced` by this GPU's profile names; empty without MIG."""
        if self.family is None:
            return {}
        name_of = {p.kind.kind: p.name for p in self.profiles.values()}
        return {name_of[kind]: count for kind, count in self.family.balanced.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedConfig:
    """A default MIG config of the GPU operator, as applied to one GPU model."""

    name: str
    mig: bool
    layout: Mapping[str, int]
    """Instances per GPU. Empty with `mig`: MIG mode is enabled, without instances."""
    without: tuple[str, ...] = ()
    """PCI IDs of the model that the device filter lacks: the config does not apply to them."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Attachable:
    """GPUs that can be attached to a machine type that comes without."""

    gpu: Gpu
    accelerator: str
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Image:
    """An EKS AMI with NVIDIA's driver."""

    name: str
    """The AMI type."""
    architecture: Architecture
    release: str
    """The date in its release version, 20260714; newer AMIs have this driver or a newer one."""
    driver: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Chart:
    """A version of the GPU operator chart."""

    version: str
    driver: str
    """The driver that it installs with `driver.enabled` and no version."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Fault:
    """A known issue of drivers that are otherwise new enough."""

    drivers: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    """Empty: all."""
    nodes: Literal["partitioned", "mixed"]
    """All nodes with partitions, or only those that also have whole GPUs."""
    what: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class PluginFault:
    """Profiles that older versions of NVIDIA's device plugin do not advertise separately."""

    version: str
    """The first version that does."""
    chart: str
    """The first GPU operator chart with that version."""
    endings: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Price:
    """A public list price in US dollars per machine and hour, before discounts."""

    usd_per_hour: float
    up_to: float | None = None
    """The most expensive zone of a sample; `usd_per_hour` is then the cheapest."""
    capacity: Literal["on-demand", "spot"]
    region: str
    date: str | None
    """ISO date of the list; None for an undated sample. All spot prices are samples."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Machine:
    """A machine type of one cloud."""

    name: str
    cloud: Cloud
    vcpus: int
    memory_gib: int
    architecture: Architecture = "amd64"
    gpu: Gpu | None = None
    gpu_count: int = 0
    accelerator: str | None = None
    """GKE's accelerator type, if the machine type comes with GPUs."""
    attachable: tuple[Attachable, ...] = ()
    local_ssds: int | None = None
    """Local SSDs that come with it. None: configurable, or unknown if there is `local_ssd_gb`."""
    local_ssd_gb: int | None = None
    """Size of all local SSDs that come with the type."""
    boot_disk: str | None = None
    """The only supported type of boot disk; None: no known limit."""
    needs_gvnic: bool = False
    interconnect: str | None = None
    """GPU networking between nodes; needs additional networks. MIG partitions do not use it."""
    efa: int | None = None
    """EKS: number of Elastic Fabric Adapters; None: unknown."""
    pods: int | None = None
    """EKS: maximum pods by network interfaces; None: unknown, or GKE, where the pool sets it."""
    image: Image | None = None
    """EKS: the AMI with NVIDIA's driver for its architecture; None without GPUs."""
    capacity: tuple[Capacity, ...] | None = None
    """Capacity modes in which it is offered; None: unknown."""
    zones: tuple[str, ...] | None = None
    """Zones that have it; None: unknown, or all."""
    prices: tuple[Price, ...] = ()
    note: str = ""
    """A note for users who choose it."""
    source: str

    def __repr__(self) -> str:
        return f"Machine({self.cloud} {self.name})"

    def price(self, capacity: Literal["on-demand", "spot"], region: str) -> Price | None:
        """The list price there; None: unknown."""
        return next((p for p in self.prices if p.capacity == capacity and p.region == region), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class LeftOut:
    """Machine types or GPUs that exist and are deliberately not in the catalog."""

    names: tuple[str, ...]
    """Compared without case, spaces and dashes; `*` matches any text."""
    cloud: Cloud | None = None
    """For machine types; None for GPUs."""
    reason: str
    """Follows the name in a message."""
    instead: tuple[str, ...]
    """Similar names in the catalog."""
    source: str

    def has(self, name: str) -> bool:
        return any(fnmatchcase(_spelled(name), _spelled(own)) for own in self.names)


def _spelled(name: str) -> str:
    return re.sub("[ -]", "", name.casefold())


@dataclass(frozen=True, kw_only=True, eq=False)
class Accelerator:
    """A GKE accelerator type and its partition sizes."""

    name: str
    gpu: Gpu
    sizes: tuple[str, ...]
    refused: Mapping[str, str]
    """Profiles of the GPU that GKE does not support -> why."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Catalog:
    gpus: Mapping[str, Gpu]
    machines: Mapping[tuple[Cloud, str], Machine]
    accelerators: Mapping[str, Accelerator]
    named_configs: Mapping[str, Mapping[str, NamedConfig]]
    """GPU -> the GPU operator's default configs for it, by name."""
    charts: Mapping[str, Chart]
    """By version."""
    faults: tuple[Fault, ...]
    plugin_faults: tuple[PluginFault, ...]
    left_out: tuple[LeftOut, ...]

    def why_left_out(self, name: str, cloud: Cloud | None = None) -> LeftOut | None:
        """The row of a machine type of `cloud`, or of a GPU if None; None if there is none."""
        return next((row for row in self.left_out if row.cloud == cloud and row.has(name)), None)

    def machine_names(self, cloud: Cloud) -> tuple[str, ...]:
        return tuple(name for c, name in self.machines if c == cloud)
