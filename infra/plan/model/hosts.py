"""A host's plan holds the GPU instances that the agent creates there, without Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass

from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Placement


@dataclass(frozen=True, kw_only=True)
class HostGpuPlan:
    index: int
    mig: bool
    persistence: bool
    instances: tuple[Placement, ...]
    """GPU instances in the order of creation. Each gets one compute instance over all of it."""


@dataclass(frozen=True, kw_only=True)
class HostPlan:
    name: str
    gpu: Gpu
    gpu_count: int
    wait_minutes: int | None
    """How long to wait for a GPU in use. None: fail at once."""
    gpus: tuple[HostGpuPlan, ...]
    """GPUs that are not listed are not touched."""
