"""NVIDIA's Triton Inference Server as a workload."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Tag

from slicewright.infra.stack_file.schema.constraints import FreeText, Pattern
from slicewright.infra.stack_file.schema.field_types import Memory
from slicewright.infra.stack_file.schema.model import SpecModel
from slicewright.infra.stack_file.schema.workloads.serving import (
    Argument,
    ClaimedVolume,
    ServingWorkload,
    volume_tag,
)

_TRITON = "triton-inference-server/server, docs/user_guide"


class ModelShare(SpecModel):
    """A directory of models on an NFS server."""

    server: Annotated[
        str,
        Pattern(
            pattern=r"[A-Za-z0-9](?:[-A-Za-z0-9.:]{0,251}[A-Za-z0-9])?",
            is_not="the name or the address of a server",
            examples=("10.222.1.60", "nfs.example.com"),
            source="Kubernetes docs, volumes: nfs",
        ),
    ]
    path: Annotated[
        str,
        Pattern(
            pattern=r"/[^\x00-\x1f]{0,1023}",
            is_not="an absolute path",
            examples=("/shares/models",),
            source="Kubernetes docs, volumes: nfs",
        ),
    ]
    read_only: bool = True


Repository = Annotated[
    Annotated[ClaimedVolume, Tag("claimed")] | Annotated[ModelShare, Tag("nfs")],
    Discriminator(lambda value: "claimed" if volume_tag(value) == "claimed" else "nfs"),
]


class TritonWorkload(ServingWorkload):
    """NVIDIA's Triton Inference Server: HTTP on port 8000, gRPC on 8001, metrics on 8002."""

    kind: Literal["triton"]
    model_repository: Repository
    """A directory of models, at /models."""
    model_control: Literal["none", "explicit", "poll"] = "none"
    """`none`: all models are loaded at the start. `explicit`: only `load_models`, and others on
    request. `poll`: like `none`, and changes of the directory are applied.
    """
    load_models: tuple[
        Annotated[str, FreeText("the name of a model", _TRITON, "densenet_onnx")], ...
    ] = ()
    gpu_memory: Memory | None = None
    """Memory that a replica with all its models needs on its GPU or partition. None: not checked.
    """
    extra_args: tuple[Argument, ...] = ()
    """Further arguments of tritonserver, except the arguments above."""
