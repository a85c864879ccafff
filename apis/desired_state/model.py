"""The desired state of a node as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from slicewright.apis.shares.engines import EngineName

VERSION = "v1"


LARGEST: Final = 256 * 1024
"""Longest desired state in characters: the limit for all annotations of an object together. Source:
k8s.io/apimachinery, pkg/api/validation (TotalAnnotationSizeLimitB).
"""


Partitioner = Literal["gke", "bottlerocket", "mig-manager", "none"]
"""The component that partitions the GPUs: GKE's node set-up, Bottlerocket at boot, NVIDIA's
mig-manager, or none.
"""


SharingStrategy = Literal["time-slicing", "mps"]


class DesiredError(ValueError):
    """The file is not a valid desired state. The message lists every problem."""


@dataclass(frozen=True, kw_only=True)
class DesiredGpu:
    """The desired state of one GPU, or of every GPU, of the node."""

    index: int | Literal["all"]
    """NVML index of the GPU on the node. `"all"` must be the only entry."""
    mig: bool
    instances: Mapping[str, int] = field(default_factory=dict)
    """MIG profile, as NVIDIA writes it (`3g.40gb`, `1g.10gb+me`, `1c.3g.40gb`) -> count of MIG
    devices. Empty without MIG.
    """


@dataclass(frozen=True, kw_only=True)
class DesiredSharing:
    """`resource` is advertised `replicas` times per device. `Desired.resources` has the product."""

    resource: str
    strategy: SharingStrategy
    replicas: int


@dataclass(frozen=True, kw_only=True)
class DesiredShares:
    """The engine that shares the node's whole GPUs by fractions, and its settings."""

    engine: EngineName
    slots: int
    """Most containers on a card."""
    memory_percent: int = 100
    """Part of a card's memory that may be promised: above 100, more than it has."""
    compute_percent: int = 100
    memory_unit_mib: int = 1
    """MiB in one unit of requested memory."""


@dataclass(frozen=True, kw_only=True)
class Desired:
    """The desired state of every node of a pool. `check`, `dump` and `parse` validate it."""

    pool: str
    partitioner: Partitioner
    gpu_count: int
    gpu_models: tuple[str, ...]
    """The accepted NVML product names, for example `NVIDIA H100 80GB HBM3`. At least one."""
    gpus: tuple[DesiredGpu, ...]
    """One entry with index "all", or one entry for each index from 0 to gpu_count - 1."""
    resources: Mapping[str, int]
    """Extended resource -> quantity, in the Node's capacity and in its allocatable. Resources
    `nvidia.com/gpu*` and `nvidia.com/mig-*` that are not named here must be absent or 0.
    """
    gpu_memory_mib: int | None = None
    """Total memory of one GPU in MiB, as NVML gives it. It names the instances by their size if the
    driver hides the total: in MIG mode, reading the parent's memory needs privileges.
    """
    minimum_driver: str | None = None
    """Oldest driver that supports the layout, for example `525.60.13`."""
    sharing: tuple[DesiredSharing, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Label of the Node -> its possible values, as GPU feature discovery writes them."""
    shares: DesiredShares | None = None
    """None if no engine shares the GPUs by fractions."""

    def gpu(self, index: int) -> DesiredGpu:
        """Returns the desired state of the GPU with this NVML index.

        Raises KeyError if the layout has no such GPU.
        """
        for entry in self.gpus:
            if entry.index in ("all", index) and index < self.gpu_count:
                return entry
        raise KeyError(index)
