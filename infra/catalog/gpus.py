"""Rows about GPUs: families, MIG profiles, named configs.

Frozen, compared and hashed by identity. A fact without a source is None: unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal


@lru_cache(maxsize=1024)
def driver_order(version: str) -> tuple[int, ...]:
    """Sort key of driver versions."""
    return tuple(int(part) for part in version.split("."))


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """A kind of GPU instance: its resources on every GPU of a family, whose names for it differ."""

    kind: str
    id: int
    """NVML's GPU-instance profile ID, the number that `nvidia-smi mig -cgi` takes."""
    nvml: int
    """NVML's constant NVML_GPU_INSTANCE_PROFILE_…, the argument of its calls. Differs from `id`."""
    starts: tuple[int, ...]
    """Possible first memory slots."""
    size: int
    """Memory slots occupied."""
    compute: int
    """Compute slices occupied."""
    most: int
    """Maximum number of instances of this kind on one GPU."""
    engines: Mapping[str, int]
    """Media engines that an instance uses, keyed like `Family.engines`."""
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
    """A MIG profile of a GPU. Names are not unique: `1g.10gb` differs between GPUs."""

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
    """Kinds that together on a GPU need a newer driver than each alone."""

    kinds: frozenset[str]
    minimum_driver: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Gpu:
    """A GPU model. Without `family` it has no MIG, only time-slicing and MPS."""

    name: str
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"] | None
    products: tuple[str, ...]
    """NVML's names of the model."""
    pci_ids: tuple[str, ...]
    """`0xDDDDVVVV`, as in NVML's pciDeviceId and mig-parted's device-filter."""
    memory_mib: int | None
    """Total memory as reported by NVML. None: unknown."""
    sms: int | None
    minimum_driver: str | None
    """Oldest driver with MIG on this model. Without MIG, the oldest known driver for the model.
    None: unknown.
    """
    family: Family | None = None
    profiles: Mapping[str, Profile]
    together: tuple[Together, ...] = ()
    unlisted_mig: bool = False
    """True if it has MIG, but no profiles here: it can only be used whole."""
    source: str

    def __repr__(self) -> str:
        return f"Gpu({self.name})"

    @property
    def mode_change_resets(self) -> bool:
        """True if changing the MIG mode needs a GPU reset, which in a VM is usually a reboot.

        Source: NVIDIA MIG user guide, Ampere.
        """
        return self.family is not None and self.architecture == "ampere"

    def balanced(self) -> Mapping[str, int]:
        """NVIDIA's layout `all-balanced` by this GPU's profile names, empty without MIG."""
        if self.family is None:
            return {}
        name_of = {p.kind.kind: p.name for p in self.profiles.values()}
        return {name_of[kind]: count for kind, count in self.family.balanced.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedConfig:
    """A default MIG config of the GPU operator, as applied to a GPU model."""

    name: str
    mig: bool
    layout: Mapping[str, int]
    """Instances per GPU. Empty with `mig`: MIG mode is enabled, without instances."""
    without: tuple[str, ...] = ()
    """PCI IDs of the model that the device filter lacks: the config does not apply to them."""
    source: str
