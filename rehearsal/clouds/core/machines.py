"""The simulated clouds' machine types: what a node of each type has, and where it can be had."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

Provider = Literal["gke", "eks"]

GKE_GPU_MODELS: Mapping[str, str] = {
    "nvidia-tesla-t4": "T4",
    "nvidia-tesla-p4": "P4",
    "nvidia-tesla-p100": "P100",
    "nvidia-tesla-v100": "V100-16",
    "nvidia-l4": "L4",
    "nvidia-tesla-a100": "A100-40",
    "nvidia-a100-80gb": "A100-80",
    "nvidia-h100-80gb": "H100-80",
}
"""GKE's accelerator type -> the key of rehearsal.cluster.silicon's catalog."""

MIG_MODELS = frozenset({"A100-40", "A100-80", "H100-80"})


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine type. `gpu` is GKE's accelerator type on GKE, a silicon model on EKS; None = no
    GPU of its own.
    """

    name: str
    vcpu: int
    ram_gib: int
    memory_ki: int
    """Memory the kubelet reports as capacity: RAM less what firmware and kernel keep."""
    pods: int | None
    """EKS: the limit that network interfaces set. GKE's limit is a setting of the pool."""
    gpu: str | None
    gpu_count: int
    gpu_choices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """N1 only: accelerator types that may be attached, and how many."""
    local_ssd: int | None = None
    """Local SSDs that the type always has; None = free choice."""
    zones: frozenset[str] | None = None
    """Zones that have it; None = everywhere."""


@cache
def machines(provider: Provider) -> Mapping[str, Machine]:
    raw = tomllib.loads((Path(__file__).parent / "machines.toml").read_text())[provider]
    return {name: _machine(name, row) for name, row in raw.items()}


def _machine(name: str, row: Mapping[str, object]) -> Machine:
    values = dict(row)
    ram_gib = values["ram_gib"]
    assert isinstance(ram_gib, int)
    # About 3 % of a machine's RAM never reaches the kubelet's capacity (inferred from published
    # node descriptions).
    values.setdefault("memory_ki", ram_gib * 1024 * 1024 * 97 // 100)
    values.setdefault("pods", None)
    values.setdefault("gpu", None)
    values.setdefault("gpu_count", 0)
    zones, choices = values.pop("zones", None), values.pop("gpu_choices", {})
    assert isinstance(choices, dict)
    assert zones is None or isinstance(zones, list)
    return Machine(
        name=name,
        zones=frozenset(zones) if zones is not None else None,
        gpu_choices={gpu: tuple(counts) for gpu, counts in choices.items()},
        **values,  # type: ignore[arg-type]  # the file is ours, and a test reads every row
    )


def reserved_cpu_millis(vcpu: int) -> int:
    """What kubelet keeps for itself on both clouds: 6 % of the first core, 1 % of the next, 0.5 %
    of two more, 0.25 % above.
    """
    return int(
        60 + 10 * min(max(vcpu - 1, 0), 1) + 5 * min(max(vcpu - 2, 0), 2) + 2.5 * max(vcpu - 4, 0)
    )


def gke_reserved_memory_ki(ram_gib: int) -> int:
    """25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the next 112, 2 %
    above; 100 MiB for eviction.
    """
    gib, left = 0.0, float(ram_gib)
    for size, share in ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06)):
        gib += min(left, size) * share
        left = max(left - size, 0)
    return int((gib + left * 0.02) * 1024 * 1024) + 100 * 1024


def eks_reserved_memory_ki(pods: int) -> int:
    """255 MiB and 11 MiB per pod, as nodeadm computes it; plus 100 MiB for eviction."""
    return (255 + 11 * pods + 100) * 1024
