"""A workload that runs any server image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema.constraints import IntRange, Pattern
from slicewright.infra.stack_file.schema.field_types import Memory
from slicewright.infra.stack_file.schema.model import SpecModel
from slicewright.infra.stack_file.schema.workloads.serving import (
    Argument,
    GpuCount,
    ServingWorkload,
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
    """A GET request that a healthy server answers with 200 to 399."""

    port: PortName
    """One of `ports`."""
    path: UrlPath
    alive_path: UrlPath | None = None
    """Path that decides whether the server is restarted. By default `path`."""


class ContainerWorkload(ServingWorkload):
    """Any server: an image, its command, and its health check."""

    kind: Literal["container"]
    command: tuple[Argument, ...] = ()
    """Command of the container. By default the image's command."""
    args: tuple[Argument, ...] = ()
    ports: Mapping[PortName, Port] = Field(default_factory=dict)
    """Name -> number. Without ports there is no Service."""
    health: HttpCheck | None = None
    """None: a pod is ready as soon as it runs, and is restarted when it ends."""
    gpus: GpuCount = 1
    """GPUs of a replica. More than 1 only on whole GPUs."""
    gpu_memory: Memory | None = None
    """Memory that a replica needs on each of its GPUs, or on its partition. None: not checked."""
    cache: Volume | None = None
    """A volume at /cache."""
