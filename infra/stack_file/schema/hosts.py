"""Machines without Kubernetes. Their GPUs are partitioned in place."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    FreeText,
    IntRange,
    NotEmpty,
    Pattern,
)
from slicewright.infra.stack_file.schema.field_types import GpuCount, GpuIndex, ProfileName
from slicewright.infra.stack_file.schema.model import Shorthand, SpecModel


class GpuChoice(SpecModel):
    """The GPUs of a node or host without a known machine type."""

    model: Annotated[str, FreeText("a GPU model", "slicewright's catalog", "A100-40", "T4")]
    """The catalog's name: A100-40, H100-80, T4."""
    count: GpuCount


class NodeGpus(SpecModel):
    """The GPUs of existing nodes. Exactly one of `model` and `product`."""

    model_config = ConfigDict(
        json_schema_extra={
            # Types are included: a key that is null counts as absent.
            "oneOf": [
                {"required": [key], "properties": {key: {"type": "string"}}}
                for key in ("model", "product")
            ]
        }
    )

    model: (
        Annotated[str, FreeText("a GPU model", "slicewright's catalog", "A100-40", "T4")] | None
    ) = None
    """The catalog's name: A100-40, H100-80, T4."""
    product: Annotated[str, FreeText("a product", "nvidia-smi -L", "NVIDIA A10")] | None = None
    """NVML's name, as `nvidia-smi -L` prints it. A GPU that the catalog lacks can be used whole."""
    count: GpuCount


class Instance(SpecModel):
    profile: ProfileName
    start: (
        Annotated[int, IntRange(minimum=0, source="NVML: memory slots are counted from 0")] | None
    ) = None
    """First memory slot. Set for all instances of a GPU, or for none."""


class HostGpu(SpecModel):
    """A GPU of the host. Unlisted GPUs are not changed."""

    index: GpuIndex
    mig: bool = True
    persistence: bool = True
    """Persistence mode: keeps the driver loaded while no process uses the GPU."""
    instances: tuple[Instance, ...] = ()


class Refuse(SpecModel):
    """Stop if processes use a GPU, and name them."""

    mode: Literal["refuse"] = "refuse"


class Wait(SpecModel):
    """Wait until processes that use a GPU end. No process is killed."""

    mode: Literal["wait"]
    minutes: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=1440,
            unit="minute",
            why_maximum="a process that is still running after a day needs manual action",
            source=OWN_LIMIT,
            alternative="in_use: refuse",
        ),
    ]


class Host(SpecModel):
    name: Annotated[
        str,
        Pattern(
            pattern=r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?",
            is_not="a host name: at most 253 lowercase letters, digits, '-' and '.'",
            examples=("gpu1.example.com", "rnd3"),
            source="RFC 1123",
        ),
    ]
    """Host name."""
    gpu: GpuChoice
    partition: Literal["bare"] = "bare"
    """The node agent itself creates the partitions."""
    in_use: Annotated[Refuse | Wait, Field(discriminator="mode"), Shorthand("refuse")] = Refuse()
    gpus: Annotated[
        tuple[HostGpu, ...],
        NotEmpty(why="no GPU would be partitioned", instead="list at least one GPU"),
    ]
