"""Checks a vLLM workload: its arguments, and its model against the memory of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, listed, refuse, rule
from slicewright.infra.plan.model.deployments import Devices
from slicewright.infra.plan.model.pools import PoolPlan
from slicewright.infra.plan.workloads.larger import larger
from slicewright.infra.plan.workloads.model_memory import model_memory
from slicewright.infra.plan.workloads.servers import vllm_flags
from slicewright.infra.plan.workloads.servers.server_flags import (
    check_form,
    flags_of,
    meant,
    normal_form,
)
from slicewright.infra.plan.workloads.texts import SECRETS

_MODELS: Final = "vLLM, vllm/model_executor/models: attention heads by tensor parallelism"
_NO_BFLOAT16: Final = frozenset({"turing"})
"""Generations below compute capability 8.0."""


@rule("vllm-model")
def check_vllm(
    workload: stack_file.VllmWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    model = workload.model
    if (model.name is None) == (model.path is None) and stated.has((*path, "model")):
        yield refuse(
            (*path, "model"),
            "has both name and path, but there is one model"
            if model.name
            else "has neither name nor path",
            "write one of them",
        )
    if model.path is not None and workload.cache is None and stated.has((*path, "cache")):
        yield refuse(
            (*path, "model", "path"),
            "is a directory of the volume cache, and there is none",
            "add cache: {claim: …} with the model in it, or write model.name",
        )
    if model.path is not None and isinstance(workload.cache, stack_file.NewVolume):
        yield refuse(
            (*path, "model", "path"),
            "is a directory of the volume cache, which is new and empty",
            "write cache: {claim: …} with the name of a claim that has the model",
        )
    if model.revision is not None and model.name is None:
        yield refuse(
            (*path, "model", "revision"),
            "applies to models on the Hugging Face Hub, and this one is a directory",
            "leave it out",
            in_key=True,
        )
    yield from _check_heads(workload, path, stated)
    yield from _check_arguments(workload.extra_args, (*path, "extra_args"))


@rule("vllm-parallel")
def _check_heads(
    workload: stack_file.VllmWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    """Refuses a number of GPUs that cannot share the model's key-value heads evenly."""
    if workload.model.attention is None or not stated.has((*path, "tensor_parallel")):
        return
    heads, gpus = workload.model.attention.kv_heads, workload.tensor_parallel
    if heads % gpus == 0 or gpus % heads == 0:
        return
    # From the catalog: no replica has more GPUs.
    even = [n for n in range(1, 17) if heads % n == 0 or n % heads == 0]
    below, above = max(n for n in even if n < gpus), [n for n in even if n > gpus]
    yield refuse(
        (*path, "tensor_parallel"),
        f"{gpus} GPUs cannot share {heads} key-value heads: one number must divide the other",
        f"write {below} or {above[0]}" if above else f"write {below}",
        _MODELS,
    )


@rule("vllm-dtype")
def check_dtype(
    workload: stack_file.VllmWorkload, path: stack_file.Path, pool: PoolPlan
) -> Checked[None]:
    """Refuses a data type that the pool's GPUs do not have."""
    if workload.dtype == "bfloat16" and pool.gpu.architecture in _NO_BFLOAT16:
        yield refuse(
            (*path, "dtype"),
            f"{pool.gpu.name} has no bfloat16, which needs compute capability 8.0: vLLM ends",
            "write float16, or auto",
            "vLLM, vllm/platforms/cuda.py: check_if_supports_dtype",
        )


def _check_arguments(arguments: Sequence[str], path: stack_file.Path) -> Checked[None]:
    yield from check_form(arguments, path, server="vLLM's server")
    for flag in flags_of(arguments):
        yield from _check_flag(flag.flag, (*path, flag.index))


@rule("vllm-flag")
def _check_flag(written: str, at: stack_file.Path) -> Checked[None]:
    normal = normal_form(written)
    is_allowed = normal in vllm_flags.CATALOG - set(vllm_flags.REFUSED)
    flag = None if is_allowed else meant(normal, vllm_flags.REFUSED)
    if flag is None:
        return
    if flag in vllm_flags.OWN_KEYS:
        key = vllm_flags.OWN_KEYS[flag]
        yield refuse(at, f"{flag} has a key of its own, which is checked", f"use {key}")
    elif flag in vllm_flags.OTHER_GPUS:
        yield refuse(
            at,
            f"{flag}: a pod has the GPUs of tensor_parallel, and no others",
            "leave it out, or use tensor_parallel",
            "vLLM docs, distributed inference and serving",
        )
    elif flag in vllm_flags.SECRETS:
        yield refuse(
            at,
            f"{flag} would show a secret to all who may list pods",
            f"write secrets: {{{vllm_flags.SECRETS[flag]}: {{name: …, key: …}}}}",
            SECRETS,
        )
    else:
        why = {**vllm_flags.ADDRESS, **vllm_flags.UNCHECKED}[flag]
        yield refuse(at, f"{flag}: {why}", "leave it out")


@rule("vllm-memory")
def check_memory(
    workload: stack_file.VllmWorkload,
    path: stack_file.Path,
    pool: PoolPlan,
    devices: Devices,
    stated: Stated,
) -> Checked[None]:
    """Weights, the longest context and vLLM's own memory against the partition's."""
    needs = ("model", "dtype", "kv_cache_dtype", "max_model_len", "gpu_memory_percent")
    if not stated.has(*((*path, key) for key in needs)) or devices.mib is None:
        return
    percent = workload.gpu_memory_percent
    kind = f"{listed(devices.profiles)} of" if devices.profiles else "whole"
    memory, usable = model_memory(workload), devices.mib * percent // 100
    if memory.needed_mib <= usable:
        return
    tokens = memory.tokens_in(usable)
    parts = f"{memory.weights_mib} MiB of weights, " + (
        f"{memory.context_mib} MiB of one context of {memory.context_tokens} tokens, "
        if memory.context_mib
        else ""
    )
    if memory.context_mib and tokens:
        at: stack_file.Path = (*path, "max_model_len")
        instead = f"write {tokens} or less"
    else:
        at = (*path, "model")
        instead = "quantize the model (weight_bits)"
    other = larger(pool, memory.needed_mib * 100 / percent)
    yield refuse(
        at,
        f"a replica needs {memory.needed_mib} MiB: {parts}about {memory.overhead_mib} MiB of "
        f"vLLM's own; {percent} % of a {kind} {pool.gpu.name} are {usable} MiB",
        f"{instead}, or choose {other}",
        "vLLM docs, conserving memory",
    )
