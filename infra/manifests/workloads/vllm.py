"""vLLM's container: arguments and probes. Source: vLLM docs, engine arguments, Kubernetes."""

from __future__ import annotations

from typing import Final

from slicewright.infra.manifests.workloads.server import Server
from slicewright.infra.manifests.workloads.volumes import CACHE, cache
from slicewright.infra.plan import DeploymentPlan
from slicewright.infra.stack_file import VllmWorkload

_PORT: Final = 8000


def vllm_server(plan: DeploymentPlan, workload: VllmWorkload) -> Server:
    health = {"httpGet": {"path": "/health", "port": "http"}}
    return Server(
        args=vllm_args(workload),
        env={"HF_HOME": f"{CACHE}/huggingface"},
        ports={"http": _PORT},
        ready=health,
        alive=health,
        volumes=(cache(plan, workload.cache),),
    )


def vllm_args(workload: VllmWorkload) -> tuple[str, ...]:
    """The arguments of `vllm.entrypoints.openai.api_server`, the program of vLLM's images."""
    model = workload.model
    typed = {
        "host": "0.0.0.0",  # noqa: S104 - in a pod; the Service decides who reaches it
        "port": _PORT,
        "model": model.name if model.name is not None else f"{CACHE}/{model.path}",
        "revision": model.revision,
        "served-model-name": workload.served_name,
        "dtype": workload.dtype,
        "kv-cache-dtype": workload.kv_cache_dtype if workload.kv_cache_dtype != "auto" else None,
        "tensor-parallel-size": workload.tensor_parallel,
        "gpu-memory-utilization": f"{workload.gpu_memory_percent / 100:g}",
        "max-model-len": workload.max_model_len,
        "max-num-seqs": workload.max_num_seqs,
    }
    return (
        *(f"--{name}={value}" for name, value in typed.items() if value is not None),
        *workload.extra_args,
    )
