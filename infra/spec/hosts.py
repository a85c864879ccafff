"""Machines without Kubernetes whose GPUs are cut in place."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.spec.base import NotNegative, Positive, ProfileName, Short, Spec


class GpuChoice(Spec):
    """GPUs of a node or host where no machine type says them."""

    model: str
    """By the catalog's name: A100-40, H100-80, T4."""
    count: Positive


class Instance(Spec):
    profile: ProfileName
    start: NotNegative | None = None
    """First memory slot. On one GPU either all instances say theirs or none does."""


class HostGpu(Spec):
    """One GPU of the host. Those that are not named are left alone."""

    index: NotNegative
    mig: bool = True
    persistence: bool = True
    """Keep the driver loaded while nobody uses the GPU."""
    instances: tuple[Instance, ...] = ()


class Refuse(Spec):
    """Somebody uses the GPU: stop, and name the processes."""

    mode: Literal["refuse"] = "refuse"


class Wait(Spec):
    """Somebody uses the GPU: wait. Nobody's process is ended."""

    mode: Literal["wait"]
    minutes: Annotated[int, Field(ge=1, le=1440)]


class Host(Spec):
    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
    """As it is reached: a host name."""
    gpu: GpuChoice
    partition: Literal["bare"] = "bare"
    """The agent itself cuts the GPUs, there is nobody else."""
    in_use: Annotated[Refuse | Wait, Field(discriminator="mode"), Short("refuse")] = Refuse()
    gpus: tuple[HostGpu, ...]
