"""Checks a vLLM workload: its arguments, and its model against the memory of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from infra import spec
from infra.plan.deployments import Devices
from infra.plan.findings import Checked, Stated, listed, refuse
from infra.plan.fleet import PoolPlan
from infra.plan.larger import larger
from infra.plan.model_memory import model_memory
from infra.plan.workload_texts import SECRETS

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
}
"""Arguments of vLLM -> the keys that state them."""


def check_vllm(asked: spec.VllmWorkload, path: spec.Path, stated: Stated) -> Checked[None]:
    model = asked.model
    if (model.name is None) == (model.path is None) and stated.has((*path, "model")):
        yield refuse(
            (*path, "model"),
            "has both name and path, but there is one model"
            if model.name
            else "has neither name nor path",
            "write one of them",
        )
    if model.path is not None and asked.cache is None and stated.has((*path, "cache")):
        yield refuse(
            (*path, "model", "path"),
            "is a directory of the volume cache, and there is none",
            "add cache: {claim: …} with the model in it, or write model.name",
        )
    if model.path is not None and isinstance(asked.cache, spec.NewVolume):
        yield refuse(
            (*path, "model", "path"),
            "is a directory of the volume cache, which is new and empty",
            "write cache: {claim: …} with the name of a claim that has the model",
        )
    if model.revision is not None and model.name is None:
        yield refuse(
            (*path, "model", "revision"),
            "is of a model on the Hugging Face Hub, and this one is a directory",
            "leave it out",
            in_key=True,
        )
    for j, argument in enumerate(asked.extra_args):
        flag = argument.partition("=")[0].replace("_", "-")
        if flag in _TYPED:
            yield refuse(
                (*path, "extra_args", j),
                f"{flag} has a key of its own, which is checked",
                f"use {_TYPED[flag]}",
            )
        elif flag in ("--host", "--port"):
            yield refuse(
                (*path, "extra_args", j),
                f"{flag}: the Service and the probes expect port 8000 on every address",
                "leave it out",
            )
        elif flag in ("--api-key", "--hf-token"):
            name = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}[flag]
            yield refuse(
                (*path, "extra_args", j),
                f"{flag} would show a secret to all who may list pods",
                f"write secrets: {{{name}: {{name: …, key: …}}}}",
                SECRETS,
            )


def check_memory(
    asked: spec.VllmWorkload,
    path: spec.Path,
    pool: PoolPlan,
    devices: Devices,
    stated: Stated,
) -> Checked[None]:
    """Weights, the longest context and vLLM's own memory against the partition's."""
    needs = ("model", "dtype", "kv_cache_dtype", "max_model_len", "gpu_memory_percent")
    if not stated.has(*((*path, key) for key in needs)) or devices.mib is None:
        return
    percent, together = asked.gpu_memory_percent, min(asked.replicas, devices.sharers)
    what = f"{listed(devices.profiles)} of" if devices.profiles else "whole"
    if percent * together > 100:
        yield refuse(
            (*path, "gpu_memory_percent"),
            f"{together} replicas may share one {devices.resource}, and {percent} % each is "
            f"{percent * together} % of its memory: vLLM takes its part at the start",
            f"write {100 // together} or less, or choose a resource that is not shared",
            "vLLM docs, engine arguments",
        )
    memory, usable = model_memory(asked), devices.mib * percent // 100
    if memory.needed_mib <= usable:
        return
    tokens = memory.tokens_in(usable)
    parts = f"{memory.weights_mib} MiB of weights, " + (
        f"{memory.context_mib} MiB of one context of {memory.context_tokens} tokens, "
        if memory.context_mib
        else ""
    )
    if memory.context_mib and tokens:
        at: spec.Path = (*path, "max_model_len")
        instead = f"write {tokens} or less"
    else:
        at = (*path, "model")
        instead = "quantize the model (weight_bits)"
    other = larger(pool, memory.needed_mib * 100 / percent)
    yield refuse(
        at,
        f"a replica needs {memory.needed_mib} MiB: {parts}about {memory.overhead_mib} MiB of "
        f"vLLM's own; {percent} % of a {what} {pool.gpu.name} are {usable} MiB",
        f"{instead}, or choose {other}",
        "vLLM docs, conserving memory",
    )
