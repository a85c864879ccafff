"""Memory of a GPU or partition that a language model needs, computed from the stack file.

    weights = parameters x bits of a weight / 8
    context = 2 (keys and values) x layers x kv_heads x head_dim x bytes of a value, a token

Source: vLLM docs, conserving memory. The sizes of keys and values hold for a transformer with
grouped heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.model.memory import MIB, ModelMemory

OVERHEAD_MIB: Final = 1536
"""Memory that vLLM takes besides weights and context: CUDA's context, activations, graphs. It is an
estimate: the value depends on version and model.
"""
_BITS: Mapping[str, int] = {"auto": 16, "bfloat16": 16, "float16": 16, "float32": 32}
_TIMES: Mapping[str, int] = {"M": 10**6, "B": 10**9}


def model_memory(workload: stack_file.VllmWorkload) -> ModelMemory:
    model, gpus = workload.model, workload.tensor_parallel
    bits = model.weight_bits or _BITS[workload.dtype]
    value_bytes = 1 if workload.kv_cache_dtype == "fp8" else _BITS[workload.dtype] // 8
    shape = model.attention
    return ModelMemory(
        weights_mib=math.ceil(parameters(model.parameters) * bits / 8 / gpus / MIB),
        overhead_mib=OVERHEAD_MIB,
        context_bytes_per_token=math.ceil(
            2 * shape.layers * shape.kv_heads * shape.head_dim * value_bytes / gpus
        )
        if shape
        else None,
        context_tokens=workload.max_model_len,
    )


def parameters(written: str) -> float:
    """`12.25B` -> 12.25e9."""
    return float(written[:-1]) * _TIMES[written[-1]]
