"""The machine types of the simulated Compute Engine, and their GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from slicewright.infra import catalog
from slicewright.rehearsal.clouds.core.machines import Machine, capacity_memory_ki, load

GPU_MODELS: Mapping[str, str] = {
    "nvidia-tesla-t4": "T4",
    "nvidia-tesla-p4": "P4",
    "nvidia-tesla-p100": "P100",
    "nvidia-tesla-v100": "V100-16",
    "nvidia-l4": "L4",
    "nvidia-tesla-a100": "A100-40",
    "nvidia-a100-80gb": "A100-80",
    "nvidia-h100-80gb": "H100-80",
    "nvidia-h100-mega-80gb": "H100-80",
    "nvidia-h200-141gb": "H200",
    "nvidia-b200": "B200",
    "nvidia-gb200": "GB200",
    "nvidia-rtx-pro-6000": "RTX-PRO-6000",
}
"""Accelerator type -> the GPU's key in slicewright.rehearsal.cluster.silicon.models."""

MIG_MODELS = frozenset({"A100-40", "A100-80", "H100-80", "H200", "B200", "GB200", "RTX-PRO-6000"})


@cache
def machines() -> Mapping[str, Machine]:
    """Those of machines.toml, and the catalog's other types without GPUs."""
    return {**_catalog_machines(), **extra_machines()}


@cache
def extra_machines() -> Mapping[str, Machine]:
    """Those of machines.toml."""
    return load(Path(__file__).parent / "machines.toml")


def _catalog_machines() -> Mapping[str, Machine]:
    return {
        row.name: Machine(
            name=row.name,
            vcpu=row.vcpus,
            ram_gib=max(1, int(row.memory_gib)),
            memory_ki=capacity_memory_ki(max(1, int(row.memory_gib))),
            architecture=row.architecture,
        )
        for row in catalog.general_machines("gke")
    }


def reserved_memory_ki(ram_gib: int) -> int:
    """kube-reserved memory and the eviction threshold, in KiB.

    25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % of the next 112, 2 % above;
    100 MiB for eviction. Source: GKE's "Plan GKE node sizes".
    """
    gib, remaining = 0.0, float(ram_gib)
    for size, fraction in ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06)):
        gib += min(remaining, size) * fraction
        remaining = max(remaining - size, 0)
    return int((gib + remaining * 0.02) * 1024 * 1024) + 100 * 1024
