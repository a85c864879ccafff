"""Any server as a workload, by its image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from infra.spec.schema.constraints import IntRange, Pattern
from infra.spec.schema.field_types import Memory
from infra.spec.schema.model import SpecModel
from infra.spec.schema.served import (
    Argument,
    GpuCount,
    Served,
    Volume,
)

PortName = Annotated[
    str,
    Pattern(
        pattern=r"(?=[-a-z0-9]*[a-z])(?!.*--)[a-z0-9](?:[-a-z0-9]{0,13}[a-z0-9])?",
        is_not="the name of a port: at most 15 lowercase letters, digits and '-', with a letter",
        examples=("http",),
        source="Kubernetes API, ContainerPort.name",
    ),
]
Port = Annotated[int, IntRange(minimum=1, maximum=65_535, source="TCP")]


UrlPath = Annotated[
    str,
    Pattern(
        pattern=r"/[^\x00-\x20]{0,1023}",
        is_not="the path of a URL, starting with '/'",
        examples=("/health",),
        source="Kubernetes API, HTTPGetAction",
    ),
]


class HttpCheck(SpecModel):
    """A GET request, answered with 200 to 399 by a server that is well."""

    port: PortName
    """One of `ports`."""
    path: UrlPath
    alive_path: UrlPath | None = None
    """By which it is known whether the server must be started again. By default `path`."""


class ContainerWorkload(Served):
    """Any server: an image, what it runs, and how it is known to serve."""

    kind: Literal["container"]
    command: tuple[Argument, ...] = ()
    """By default the image's own."""
    args: tuple[Argument, ...] = ()
    ports: Mapping[PortName, Port] = Field(default_factory=dict)
    """Name -> number. Without any there is no Service."""
    health: HttpCheck | None = None
    """None: a pod is ready as soon as it runs, and started again when it ends."""
    gpus: GpuCount = 1
    """GPUs of one replica. More than 1 on whole GPUs only."""
    gpu_memory: Memory | None = None
    """What one replica takes of each of its GPUs or of its partition. None: not compared."""
    cache: Volume | None = None
    """A volume at /cache."""
