"""vLLM's container: arguments and probes. Source: vLLM docs, engine arguments, Kubernetes."""

from __future__ import annotations

from typing import Final

from infra.plan import DeploymentPlan
from infra.spec import VllmWorkload
from infra.values.server import Server
from infra.values.workload_volumes import CACHE, cache

_PORT: Final = 8000


def vllm_server(plan: DeploymentPlan, asked: VllmWorkload) -> Server:
    health = {"httpGet": {"path": "/health", "port": "http"}}
    return Server(
        args=vllm_args(asked),
        env={"HF_HOME": f"{CACHE}/huggingface"},
        ports={"http": _PORT},
        ready=health,
        alive=health,
        volumes=(cache(plan, asked.cache),),
    )


def vllm_args(asked: VllmWorkload) -> tuple[str, ...]:
    """The arguments of `vllm.entrypoints.openai.api_server`, the program of vLLM's images."""
    model = asked.model
    typed = {
        "host": "0.0.0.0",  # noqa: S104 - in a pod; the Service decides who reaches it
        "port": _PORT,
        "model": model.name if model.name is not None else f"{CACHE}/{model.path}",
        "revision": model.revision,
        "served-model-name": asked.served_name,
        "dtype": asked.dtype,
        "kv-cache-dtype": asked.kv_cache_dtype if asked.kv_cache_dtype != "auto" else None,
        "tensor-parallel-size": asked.tensor_parallel,
        "gpu-memory-utilization": f"{asked.gpu_memory_percent / 100:g}",
        "max-model-len": asked.max_model_len,
        "max-num-seqs": asked.max_num_seqs,
    }
    return (
        *(f"--{name}={value}" for name, value in typed.items() if value is not None),
        *asked.extra_args,
    )
