"""vLLM as a workload: its model, and the arguments that determine its memory."""

from __future__ import annotations

from typing import Annotated, Literal

from slicewright.infra.stack_file.schema.constraints import OWN_LIMIT, FreeText, IntRange, Pattern
from slicewright.infra.stack_file.schema.model import SpecModel
from slicewright.infra.stack_file.schema.workloads.serving import (
    Argument,
    GpuCount,
    ServingWorkload,
    Volume,
)

_VLLM = "vLLM docs, engine arguments"


class Attention(SpecModel):
    """The model's shape from `config.json`, which determines the memory per token of context."""

    layers: Annotated[int, IntRange(minimum=1, maximum=1000, source=OWN_LIMIT)]
    """`num_hidden_layers`."""
    kv_heads: Annotated[int, IntRange(minimum=1, maximum=1000, source=OWN_LIMIT)]
    """`num_key_value_heads`."""
    head_dim: Annotated[int, IntRange(minimum=1, maximum=10_000, source=OWN_LIMIT)]
    """`head_dim`, or `hidden_size` / `num_attention_heads`."""


class LanguageModel(SpecModel):
    """The model and its size. Exactly one of `name` and `path`."""

    name: (
        Annotated[
            str,
            Pattern(
                pattern=r"[A-Za-z0-9][-A-Za-z0-9._]*(?:/[A-Za-z0-9][-A-Za-z0-9._]*)?",
                is_not="the name of a model on the Hugging Face Hub",
                examples=("mistralai/Mistral-Nemo-Instruct-2407",),
                source="Hugging Face Hub docs, repositories",
            ),
        ]
        | None
    ) = None
    """Name on the Hugging Face Hub."""
    revision: (
        Annotated[
            str,
            FreeText("a branch, tag or commit", "Hugging Face Hub docs, repositories", "main"),
        ]
        | None
    ) = None
    """Branch, tag or commit of `name`. A commit never changes."""
    path: (
        Annotated[
            str,
            Pattern(
                pattern=r"(?!.*\.\.)[A-Za-z0-9][-A-Za-z0-9._/]*",
                is_not="a directory of the volume `cache`: a relative path without '..'",
                examples=("mistral-nemo",),
                source=OWN_LIMIT,
            ),
        ]
        | None
    ) = None
    """A directory in the volume `cache` that already has the model."""
    parameters: Annotated[
        str,
        Pattern(
            pattern=r"[0-9]{1,5}(?:\.[0-9]{1,3})?[MB]",
            is_not="a number of parameters, in millions (M) or billions (B)",
            examples=("12.25B", "500M"),
            source=OWN_LIMIT,
        ),
    ]
    """Number of parameters: `12.25B`."""
    weight_bits: Literal[4, 8, 16, 32] | None = None
    """Bits of a weight as stored on the GPU. By default as in `dtype`, 16 for `auto`."""
    attention: Attention | None = None
    """Needed, with `max_model_len`, to compute the memory of the context. Without it only the
    weights are compared with the partition.
    """


class VllmWorkload(ServingWorkload):
    """vLLM's server with OpenAI's API, on port 8000."""

    kind: Literal["vllm"]
    model: LanguageModel
    served_name: (
        Annotated[str, FreeText("a model's name for clients", _VLLM, "mistral-nemo")] | None
    ) = None
    """The model's name for clients. By default the name of `model`."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    kv_cache_dtype: Literal["auto", "fp8"] = "auto"
    """Data type of the KV cache: `auto` is the same as `dtype`."""
    max_model_len: (
        Annotated[
            int,
            IntRange(minimum=1, maximum=100_000_000, unit="token", source=_VLLM),
        ]
        | None
    ) = None
    """Longest context. By default the model's limit."""
    max_num_seqs: (
        Annotated[int, IntRange(minimum=1, maximum=100_000, unit="sequence", source=_VLLM)] | None
    ) = None
    gpu_memory_percent: Annotated[
        int,
        IntRange(minimum=1, maximum=100, source=_VLLM),
    ] = 90
    """vLLM's `--gpu-memory-utilization`: of the partition's memory, not of the whole GPU's."""
    tensor_parallel: GpuCount = 1
    """GPUs of a replica. More than 1 only on whole GPUs: partitions cannot reach each other."""
    cache: Volume | None = None
    """Volume for downloaded models, at /cache. Without it every replica downloads the model."""
    extra_args: tuple[Argument, ...] = ()
    """Further arguments of vLLM, except the arguments above."""
