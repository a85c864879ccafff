"""Machines without Kubernetes whose GPUs are cut in place."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.spec.schema.base import GpuCount, GpuIndex, ProfileName, Short, Spec
from infra.spec.schema.limits import OWN, Filled, Form, Named, Whole


class GpuChoice(Spec):
    """GPUs of a node or host where no machine type says them."""

    model: Annotated[str, Named("a GPU model", "slicewright's catalog", "A100-40", "T4")]
    """By the catalog's name: A100-40, H100-80, T4."""
    count: GpuCount


class Instance(Spec):
    profile: ProfileName
    start: (
        Annotated[int, Whole(least=0, below="memory slots are counted from 0", source="NVML")]
        | None
    ) = None
    """First memory slot. On one GPU either all instances say theirs or none does."""


class HostGpu(Spec):
    """One GPU of the host. Those that are not named are left alone."""

    index: GpuIndex
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
    minutes: Annotated[
        int,
        Whole(
            least=1,
            below="to wait no time is in_use: refuse",
            most=1440,
            above="who has not left after a day needs a word from a person",
            source=OWN,
            otherwise="in_use: refuse",
        ),
    ]


class Host(Spec):
    name: Annotated[
        str,
        Form(
            pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?",
            wrong="is no host name: small letters, digits, '-' and '.', at most 253",
            examples=("gpu1.example.com", "rnd3"),
            source="RFC 1123",
        ),
    ]
    """As it is reached: a host name."""
    gpu: GpuChoice
    partition: Literal["bare"] = "bare"
    """The agent itself cuts the GPUs, there is nobody else."""
    in_use: Annotated[Refuse | Wait, Field(discriminator="mode"), Short("refuse")] = Refuse()
    gpus: Annotated[
        tuple[HostGpu, ...], Filled(empty="nothing would be done", instead="name at least one GPU")
    ]
