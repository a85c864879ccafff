"""The rows of the catalog, frozen. Rows are singletons of one load, compared and hashed by
identity.

Whatever no source says is None: unknown, never a guess and never 0.
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
    """The catalog contradicts itself: a fault of the product, not of a stack file."""


def driver_order(version: str) -> tuple[int, ...]:
    """Orders driver versions, which as text they are not."""
    return tuple(int(part) for part in version.split("."))


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """One kind of GPU instance of a family: what it occupies, whatever its name is on a particular
    GPU.
    """

    kind: str
    id: int
    """NVML's GPU-instance profile ID, the number that `nvidia-smi mig -cgi` takes."""
    nvml: int
    """NVML's enum NVML_GPU_INSTANCE_PROFILE_…, which its calls take; another number than `id`."""
    starts: tuple[int, ...]
    """Legal first memory slots."""
    size: int
    """Memory slots occupied."""
    compute: int
    """Compute slices occupied."""
    most: int
    """Instances of this kind alone on one GPU."""
    engines: Mapping[str, int]
    """What it takes of the media engines that the family is short of; see `Family.engines`."""
    graphics: bool = False
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """GPUs that are cut alike."""

    name: str
    slots: int
    """Memory slots of the GPU."""
    compute: int
    """Compute slices of the GPU."""
    engines: Mapping[str, int]
    """Media engines that can run out before memory and compute do, and how many the GPU has."""
    compute_instances: Mapping[int, Mapping[int, int]]
    """Compute slices of an instance -> slices of a compute instance in it -> how many of those fill
    it.
    """
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
    """A MIG profile of one GPU. The name alone says nothing: `1g.10gb` is another instance on each
    GPU.
    """

    name: str
    kind: Kind
    memory_mib: int | None
    """Usable memory. Varies a little by board and driver: compare with a tolerance."""
    sms: int | None
    engines: Engines | None
    minimum_driver: str | None = None
    """Oldest driver that has the profile, where newer than the GPU's own minimum."""
    compute_instances: Mapping[str, int]
    """Compute-instance profiles with fewer slices than the instance, such as `1c.3g.20gb` -> 3."""
    also: tuple[str, ...] = ()
    """Other names that drivers have given it."""
    source: str

    @property
    def memory_gib(self) -> float | None:
        return None if self.memory_mib is None else self.memory_mib / 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Together:
    """Profiles that need a newer driver on one GPU together than each alone."""

    kinds: frozenset[str]
    minimum_driver: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Gpu:
    """A GPU model. Without `family` it cannot be cut: only time-slicing and MPS share it."""

    name: str
    architecture: Literal["turing", "ampere", "ada", "hopper", "blackwell"]
    products: tuple[str, ...]
    """Names that NVML gives the model."""
    pci_ids: tuple[str, ...]
    """`0xDDDDVVVV`, as NVML's pciDeviceId and mig-parted's device-filter have it."""
    memory_mib: int
    """Total as NVML gives it."""
    sms: int | None
    minimum_driver: str
    """Oldest driver that can cut it; without MIG, the oldest that is known to run it."""
    family: Family | None = None
    profiles: Mapping[str, Profile]
    together: tuple[Together, ...] = ()
    source: str

    def __repr__(self) -> str:
        return f"Gpu({self.name})"

    @property
    def mode_change_resets(self) -> bool:
        """Whether switching MIG on or off needs a GPU reset, in a virtual machine mostly a reboot.
        Source: MIG guide, Ampere.
        """
        return self.family is not None and self.architecture == "ampere"

    def balanced(self) -> Mapping[str, int]:
        """NVIDIA's layout `all-balanced` in this GPU's names; empty without MIG."""
        if self.family is None:
            return {}
        name_of = {p.kind.kind: p.name for p in self.profiles.values()}
        return {name_of[kind]: count for kind, count in self.family.balanced.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedConfig:
    """One of the GPU operator's own MIG configs, as it comes out on one GPU model."""

    name: str
    mig: bool
    layout: Mapping[str, int]
    """Instances per GPU; empty with `mig`: the mode is on and nothing is cut."""
    without: tuple[str, ...] = ()
    """PCI ids of the model that the operator's device filter forgets: on these the config never
    applies.
    """
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Attachable:
    """GPUs that a machine type without its own can be given."""

    gpu: Gpu
    accelerator: str
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Image:
    """A machine image of EKS that brings NVIDIA's driver along."""

    name: str
    """EKS's AMI type."""
    architecture: Architecture
    release: str
    """The day that ends its release version, such as 20260714: newer images have this driver or a
    newer one.
    """
    driver: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Chart:
    """A version of the GPU operator's chart."""

    version: str
    driver: str
    """What it installs where `driver.enabled` is true and no version is said."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Fault:
    """Drivers that are new enough and still do not do it."""

    drivers: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    """Empty: all."""
    nodes: Literal["cut", "mixed"]
    """Nodes with partitions, or only those that have whole GPUs beside them."""
    what: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class PluginFault:
    """Profiles that an old device plugin of NVIDIA's does not advertise as resources of their
    own.
    """

    version: str
    """The first device plugin that does."""
    chart: str
    """The first chart of the GPU operator that has it."""
    endings: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Price:
    """A public list price in US dollars per hour of one machine, before any discount. What is not
    here is unknown, not free.
    """

    usd_per_hour: float
    up_to: float | None = None
    """The dearest zone of a sample; `usd_per_hour` is then the cheapest."""
    capacity: Literal["on-demand", "spot"]
    region: str
    date: str | None
    """Day of the list, ISO; None for a sample that bears no date. Spot prices move: each is a
    sample.
    """
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
    """GKE's accelerator type, where the machine has GPUs of its own."""
    attachable: tuple[Attachable, ...] = ()
    local_ssds: int | None = None
    """Local SSDs that come with the type and cannot be chosen; None = free choice, or beside
    `local_ssd_gb` an unknown number.
    """
    local_ssd_gb: int | None = None
    """Size of all local SSDs that come with the type."""
    boot_disk: str | None = None
    """The only kind of disk it boots from; None = no such limit known."""
    needs_gvnic: bool = False
    interconnect: str | None = None
    """How GPUs of several nodes talk at full speed; needs networks of its own. Needless for
    partitions: MIG turns P2P off.
    """
    efa: int | None = None
    """EKS: Elastic Fabric Adapters; None = unknown."""
    pods: int | None = None
    """EKS: most pods that its network interfaces allow; None = unknown. GKE: a setting of the pool,
    None.
    """
    image: Image | None = None
    """EKS: the machine image with NVIDIA's driver for its processors; None without GPUs, and where
    EKS has none.
    """
    capacity: tuple[Capacity, ...] | None = None
    """Kinds of capacity it is offered in; None = unknown."""
    zones: tuple[str, ...] | None = None
    """Zones that have it; None = unknown, or all."""
    prices: tuple[Price, ...] = ()
    note: str = ""
    """What a person choosing it should know."""
    source: str

    def __repr__(self) -> str:
        return f"Machine({self.cloud} {self.name})"

    def price(self, capacity: Literal["on-demand", "spot"], region: str) -> Price | None:
        """The list price there; None = unknown."""
        return next((p for p in self.prices if p.capacity == capacity and p.region == region), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class LeftOut:
    """Machine types or GPUs that exist and are not in the catalog on purpose."""

    names: tuple[str, ...]
    """In any spelling; `*` stands for any ending."""
    cloud: Cloud | None = None
    """Of machine types."""
    reason: str
    """What follows the name in a sentence."""
    instead: tuple[str, ...]
    """What the catalog has in their place."""
    source: str

    def has(self, name: str) -> bool:
        return any(fnmatchcase(_spelled(name), _spelled(own)) for own in self.names)


def _spelled(name: str) -> str:
    return re.sub("[ -]", "", name.casefold())


@dataclass(frozen=True, kw_only=True, eq=False)
class Accelerator:
    """GKE's accelerator type and the partition sizes that GKE cuts."""

    name: str
    gpu: Gpu
    sizes: tuple[str, ...]
    refused: Mapping[str, str]
    """Profiles of the GPU that GKE does not cut or never advertises -> why."""
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Catalog:
    gpus: Mapping[str, Gpu]
    machines: Mapping[tuple[Cloud, str], Machine]
    accelerators: Mapping[str, Accelerator]
    named_configs: Mapping[str, Mapping[str, NamedConfig]]
    """GPU -> the operator's own configs that cut it, by name."""
    charts: Mapping[str, Chart]
    """By version."""
    faults: tuple[Fault, ...]
    plugin_faults: tuple[PluginFault, ...]
    left_out: tuple[LeftOut, ...]

    def why_left_out(self, name: str, cloud: Cloud | None = None) -> LeftOut | None:
        """Of a machine type of `cloud`; without one, of a GPU. None where nobody left it out on
        purpose.
        """
        return next((row for row in self.left_out if row.cloud == cloud and row.has(name)), None)

    def machine_names(self, cloud: Cloud) -> tuple[str, ...]:
        return tuple(name for c, name in self.machines if c == cloud)
