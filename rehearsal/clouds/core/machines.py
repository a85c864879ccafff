"""Machine types: what a node of each has. The tables are in `aws.machines` and `gcp.machines`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine type of either cloud."""

    name: str
    vcpu: int
    ram_gib: int
    memory_ki: int
    """Memory the kubelet reports as capacity: RAM less what firmware and kernel keep."""
    pods: int | None = None
    """EKS: the limit that network interfaces set. GKE's limit is a setting of the pool."""
    gpu: str | None = None
    """The accelerator type on GKE, the GPU model on EKS; None = no GPU of its own."""
    gpu_count: int = 0
    gpu_choices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """GKE's N1 only: accelerator types that may be attached, and how many."""
    local_ssd: int | None = None
    """GKE: local SSDs that the type always has; None = free choice."""
    local_ssd_choices: tuple[int, ...] = ()
    """GKE: how many local SSDs can be had; () = any number, or see `local_ssd`."""
    boot_disks: tuple[str, ...] = ()
    """GKE: types of disk that it can boot from."""
    zones: frozenset[str] | None = None
    """GKE: zones that have it; None = all."""
    efa: int | None = None
    """EKS: Elastic Fabric Adapters that it can have, one for each network card; None = unknown."""
    efa_first_card: int = 0
    """EKS: the first network card that can have one."""
    architecture: str = "amd64"
    """As Kubernetes names it: amd64 or arm64."""


def load(path: Path) -> Mapping[str, Machine]:
    """The machine types of a TOML file, by name."""
    return {name: _machine(name, row) for name, row in tomllib.loads(path.read_text()).items()}


def _machine(name: str, row: Mapping[str, object]) -> Machine:
    values = dict(row)
    ram_gib = values["ram_gib"]
    assert isinstance(ram_gib, int)
    values.setdefault("memory_ki", capacity_memory_ki(ram_gib))
    zones, choices = values.pop("zones", None), values.pop("gpu_choices", {})
    disks = values.pop("boot_disks", [])
    assert isinstance(choices, dict)
    assert isinstance(disks, list)
    ssds = values.pop("local_ssd_choices", [])
    assert isinstance(ssds, list)
    assert zones is None or isinstance(zones, list)
    return Machine(
        name=name,
        zones=frozenset(zones) if zones is not None else None,
        boot_disks=tuple(disks),
        local_ssd_choices=tuple(ssds),
        gpu_choices={gpu: tuple(counts) for gpu, counts in choices.items()},
        **values,  # type: ignore[arg-type]  # the file is ours, and a test reads every row
    )


def capacity_memory_ki(ram_gib: int) -> int:
    """What the kubelet reports of a machine's RAM, in KiB.

    About 3 % never reaches it (inferred from published node descriptions).
    """
    return ram_gib * 1024 * 1024 * 97 // 100


def reserved_cpu_millis(vcpu: int) -> int:
    """kube-reserved CPU on both clouds, in thousandths of a core.

    6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the others. Sources:
    GKE's "Plan GKE node sizes"; nodeadm of awslabs/amazon-eks-ami.
    """
    return int(
        60 + 10 * min(max(vcpu - 1, 0), 1) + 5 * min(max(vcpu - 2, 0), 2) + 2.5 * max(vcpu - 4, 0)
    )
