"""A launch template is the plan of an EKS node's disk, network interfaces and capacity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface of each node, in the cluster's security group."""

    card: int
    """Index of the network card."""
    device: int
    """Index on that card. The first interface of the first card has the node's own address."""
    kind: Literal["interface", "efa", "efa-only"]
    """Only the last has no address: it carries EFA's traffic and takes none from the subnet."""


@dataclass(frozen=True, kw_only=True)
class ReservedCapacity:
    """The reservation of the instances. Without both targets: any open one that matches."""

    reservation: str | None
    """ID of a capacity reservation or of a capacity block's."""
    group: str | None
    """ARN of a resource group of capacity reservations."""


@dataclass(frozen=True, kw_only=True)
class BottlerocketSettings:
    """A node's GPU settings in Bottlerocket's user data, for its own tools."""

    mig: tuple[str, int] | None
    """Bottlerocket's name of the GPU model, and the partitions of each GPU. None: whole GPUs."""
    replicas: int | None
    """Pods that take turns on each device. None: one pod has it."""
    rename_by_default: bool
    fail_requests_greater_than_one: bool


@dataclass(frozen=True, kw_only=True)
class BootLayout:
    """The layout that a node gives its GPUs when it boots, by a program in its user data."""

    gpus: tuple[tuple[str, ...], ...]
    """Profiles of the GPU instances in order of creation, by GPU index. Empty for a whole GPU."""
    pci_ids: tuple[str, ...]
    """The PCI IDs of the GPU model, as `nvidia-smi` prints them."""
    reboots: bool
    """True if a change of the MIG mode takes effect with the next boot."""

    @cached_property
    def digest(self) -> str:
        """Eight hexadecimal digits: the value of the label slicewright.io/boot-layout."""
        content = json.dumps([self.gpus, self.pci_ids])
        return hashlib.sha256(content.encode()).hexdigest()[:8]


@dataclass(frozen=True, kw_only=True)
class EksTemplate:
    """The data of a launch template."""

    disk_gb: int
    encrypted: bool
    kms_key: str | None
    """ARN. None: EBS's own key."""
    hop_limit: int
    """Hop limit of IMDSv2's tokens."""
    instance_store: Literal["raid0"] | None
    tags: Mapping[str, str]
    """Tags of instances and volumes."""
    reserved: ReservedCapacity | None
    interfaces: tuple[Interface, ...]
    """Empty: the interface that EC2 gives an instance."""
    placement: Literal["cluster"] | None
    """Whether the pool has a placement group of its own, with this strategy."""
    block: bool
    """Whether `reserved` is a capacity block. Its template, not the group, has the machine type."""
    bottlerocket: BottlerocketSettings | None
    """None: Amazon Linux."""
    boot: BootLayout | None = None
    """None: nothing in the user data partitions the GPUs."""
