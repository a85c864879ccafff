"""Workloads that share a GPU by fractions, and workloads that serve models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from slicewright.infra.stack_file.schema.fractional import Workload
from slicewright.infra.stack_file.schema.model import keys_of
from slicewright.infra.stack_file.schema.workloads.container import ContainerWorkload
from slicewright.infra.stack_file.schema.workloads.triton import TritonWorkload
from slicewright.infra.stack_file.schema.workloads.vllm import VllmWorkload

ServedWorkload = VllmWorkload | TritonWorkload | ContainerWorkload


def _tag(value: Any) -> str:
    """The union's tag. `kind` may be misspelled, but only servers have an image or a pool."""
    return "kind" if {"kind", "image", "pool"}.intersection(keys_of(value)) else "share"


AnyWorkload = Annotated[
    Annotated[Workload, Tag("share")]
    | Annotated[ServedWorkload, Field(discriminator="kind"), Tag("kind")],
    Discriminator(_tag),
]
