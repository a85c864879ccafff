"""Rows about machine types: GPUs, capacity, images, prices, GKE accelerators.

Frozen, compared and hashed by identity. A fact without a source is None: unknown, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from slicewright.infra.catalog.gpus import Gpu
from slicewright.infra.catalog.prices import Billing, Price, prices_of

Cloud = Literal["gke", "eks"]
Architecture = Literal["amd64", "arm64"]
_ARM: Mapping[Cloud, re.Pattern[str]] = {
    "eks": re.compile(r"[a-z]+\d+[a-z]*g"),
    "gke": re.compile(r"[a-z]\d+a-"),
}
"""The names of each cloud's machine families with Arm processors."""
Capacity = Literal["on-demand", "spot", "flex-start", "queued", "reservation", "capacity-block"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Attachable:
    """GPUs that can be attached to a machine type without GPUs."""

    gpu: Gpu
    accelerator: str
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Image:
    """An EKS AMI with NVIDIA's driver."""

    name: str
    """The AMI type."""
    architecture: Architecture
    release: str | None = None
    """The date in its release version, 20260714. Newer AMIs have this driver or a newer one."""
    driver: str | None = None
    """None, like `release`: the driver is unknown before a node is up."""
    source: str

    @property
    def bottlerocket(self) -> bool:
        """True for Bottlerocket, which partitions its GPUs itself, False for Amazon Linux."""
        return self.name.startswith("BOTTLEROCKET_")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Machine:
    """A machine type of a cloud."""

    name: str
    cloud: Cloud
    vcpus: int
    memory_gib: float
    architecture: Architecture = "amd64"
    gpu: Gpu | None = None
    gpu_count: int = 0
    accelerator: str | None = None
    """GKE's accelerator type, if the machine type comes with GPUs."""
    attachable: tuple[Attachable, ...] = ()
    local_ssds: int | None = None
    """Local SSDs that come with it. None: configurable, or unknown if `local_ssd_gb` is set."""
    local_ssd_gb: int | None = None
    """Size of all local SSDs that come with the type."""
    local_ssd_choices: tuple[int, ...] | None = None
    """Allowed numbers of configurable local SSDs, besides 0. None: unknown."""
    boot_disks: tuple[str, ...] | None = None
    """Types of boot disk that it can have. None: no known limit."""
    needs_gvnic: bool = False
    interconnect: str | None = None
    """GPU networking between nodes. It needs additional networks. MIG partitions do not use it."""
    efa: int | None = None
    """EKS: number of Elastic Fabric Adapters. None: unknown."""
    efa_first_card: int = 0
    """EKS: index of the first network card with an adapter. Each later card has one, too."""
    pods: int | None = None
    """EKS: maximum pods by network interfaces. None: unknown, or GKE, whose pools set it."""
    images: tuple[Image, ...] = ()
    """EKS: the AMIs with NVIDIA's driver for its architecture, the usual one first."""
    capacity: tuple[Capacity, ...] | None = None
    """The capacity modes that offer it. None: unknown."""
    zones: tuple[str, ...] | None = None
    """Zones that have it. None: unknown, or all."""
    own_prices: tuple[Price, ...] = ()
    """Prices that the row itself states, instead of the table of prices."""
    note: str = ""
    """A note for users of the machine type."""
    source: str

    def __repr__(self) -> str:
        return f"Machine({self.cloud} {self.name})"

    @property
    def prices(self) -> tuple[Price, ...]:
        """All known prices, by capacity and region. Raises CatalogError."""
        return self.own_prices or prices_of(self.cloud, self.name)

    def price(self, capacity: Billing, region: str) -> Price | None:
        """The list price in a region. None: unknown."""
        return _price_in(region, capacity, self.prices)


def _price_in(region: str, capacity: Billing, prices: tuple[Price, ...]) -> Price | None:
    return next((p for p in prices if p.capacity == capacity and p.region == region), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnlistedMachine:
    """A machine type without GPUs that the catalog lacks: its size and price are unknown."""

    name: str
    cloud: Cloud

    @property
    def architecture(self) -> Architecture:
        """Follows from the family's name: m7g, c8gd on EC2; t2a, c4a on Compute Engine."""
        return "arm64" if _ARM[self.cloud].match(self.name) else "amd64"


@dataclass(frozen=True, kw_only=True, eq=False)
class Accelerator:
    """A GKE accelerator type and its partition sizes."""

    name: str
    gpu: Gpu
    sizes: tuple[str, ...]
    refused: Mapping[str, str]
    """Profiles of the GPU that GKE does not support -> why."""
    source: str

    def price(self, capacity: Billing, region: str) -> Price | None:
        """The list price of one attached GPU in a region. None: unknown, or never attached."""
        return _price_in(region, capacity, prices_of("gke", self.name))
