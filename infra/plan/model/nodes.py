"""The parts of a node pool's plan: counts, taints, GPUs, and the names of labels and resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from slicewright.infra import stack_file
from slicewright.infra.catalog import Gpu, Machine

TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
CloudTaintEffect = Literal["NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE"]
SharingStrategy = Literal["time-slicing", "mps"]
MigStrategy = Literal["none", "single", "mixed"]
AnyCloud = Literal["gke", "eks", "byo"]
StartupTaintBy = Literal["admission-policy", "registered", "none"]
Layout = Mapping[str, int]
WHOLE_GPU: Final = "nvidia.com/gpu"
"""The extended resource of a GPU that is not partitioned."""
CLOUD_TAINT_EFFECT: Final[Mapping[TaintEffect, CloudTaintEffect]] = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
SYSTEM_LABELS: Final[Mapping[str, str]] = {"slicewright.io/role": "system"}
"""Labels of the system pool's nodes, which run the controller and the GPU operator."""
AnyPool = stack_file.GkePool | stack_file.EksPool | stack_file.ByoPool
NO_GKE_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
"""Keeps GKE's own device plugin off a node. Source: GKE docs, NVIDIA GPU Operator."""
OPERANDS_LABEL = "nvidia.com/gpu.deploy.operands"
"""`false` keeps NVIDIA's operands off a node. Source: NVIDIA GPU operator docs, install."""
GKE_LABELS = frozenset(
    f"cloud.google.com/{name}"
    for name in (
        "gke-accelerator",
        "gke-accelerator-count",
        "gke-gpu",
        "gke-gpu-driver-version",
        "gke-gpu-partition-size",
        "gke-gpu-sharing-strategy",
        "gke-max-shared-clients-per-gpu",
        "gke-nodepool",
    )
)
"""Labels that GKE sets from a pool's settings. Source: GKE docs, GPU node labels."""


@dataclass(frozen=True, kw_only=True)
class Taint:
    key: str
    value: str
    effect: TaintEffect

    @property
    def cloud_effect(self) -> CloudTaintEffect:
        """The effect as both clouds' APIs spell it."""
        return CLOUD_TAINT_EFFECT[self.effect]


@dataclass(frozen=True, kw_only=True)
class NodeCount:
    """Nodes of a pool over all its zones. The number is fixed if min == max and not autoscaled."""

    min: int
    max: int
    autoscaled: bool


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """The GPUs of one node."""

    gpu: Gpu
    count: int


@dataclass(frozen=True, kw_only=True)
class GpuMachine(Gpus):
    """A machine type with the GPUs that its nodes have."""

    machine: Machine
    accelerator: str
    """GKE's accelerator type. Empty on EKS."""
