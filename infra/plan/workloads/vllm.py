"""Checks a vLLM workload: its arguments, and its model against the memory of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, listed, refuse
from slicewright.infra.plan.model.deployments import Devices
from slicewright.infra.plan.model.pools import PoolPlan
from slicewright.infra.plan.workloads.larger import larger
from slicewright.infra.plan.workloads.model_memory import model_memory
from slicewright.infra.plan.workloads.server_flags import meant
from slicewright.infra.plan.workloads.texts import SECRETS

_TYPED: Final[Mapping[str, str]] = {
    "--model": "model",
    "--revision": "model.revision",
    "--served-model-name": "served_name",
    "--dtype": "dtype",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--max-model-len": "max_model_len",
    "--max-num-seqs": "max_num_seqs",
    "--gpu-memory-utilization": "gpu_memory_percent",
    "--tensor-parallel-size": "tensor_parallel",
    "-tp": "tensor_parallel",
}
"""Arguments of vLLM -> the keys that state them."""
_OTHER_GPUS: Final = ("--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp")
_ADDRESS: Final = ("--host", "--port")
_SECRETS: Final[Mapping[str, str]] = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
_CHECKED: Final = (*_TYPED, *_OTHER_GPUS, *_ADDRESS, *_SECRETS)


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
    for j, argument in enumerate(workload.extra_args):
        yield from _check_argument(argument, (*path, "extra_args", j))


def _check_argument(argument: str, at: stack_file.Path) -> Checked[None]:
    name, equals, value = argument.partition("=")
    flag = meant(f"{name.replace('_', '-')}{equals}{value}", _CHECKED)
    if flag is None:
        return
    if flag in _TYPED:
        yield refuse(at, f"{flag} has a key of its own, which is checked", f"use {_TYPED[flag]}")
    elif flag in _OTHER_GPUS:
        yield refuse(
            at,
            f"{flag}: a pod has the GPUs of tensor_parallel, and no others",
            "leave it out, or use tensor_parallel",
            "vLLM docs, distributed inference and serving",
        )
    elif flag in _ADDRESS:
        yield refuse(
            at,
            f"{flag}: the Service and the probes expect port 8000 on every address",
            "leave it out",
        )
    elif flag in _SECRETS:
        yield refuse(
            at,
            f"{flag} would show a secret to all who may list pods",
            f"write secrets: {{{_SECRETS[flag]}: {{name: …, key: …}}}}",
            SECRETS,
        )


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
