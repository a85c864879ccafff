"""The flags of vLLM's server by their effect. Source: vLLM docs, engine and server arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWN_KEYS: Final[Mapping[str, str]] = {
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
"""Flags -> the keys that state them."""
OTHER_GPUS: Final = (
    *("--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp"),
    *("--data-parallel-size-local", "-dpl", "--data-parallel-rank", "-dpn"),
    *("--data-parallel-start-rank", "-dpr", "--data-parallel-address", "-dpa"),
    *("--data-parallel-rpc-port", "-dpp", "--data-parallel-backend", "-dpb"),
    *("--data-parallel-hybrid-lb", "-dph", "--data-parallel-external-lb", "-dpe"),
    *("--prefill-context-parallel-size", "-pcp", "--nnodes", "-n", "--node-rank", "-r"),
    *("--master-addr", "--master-port", "--device"),
)
ADDRESS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("--host", "--port"), "the Service and the probes expect port 8000 on every address"
    ),
    "--uds": "the server would listen on a file, and the Service and the probes expect port 8000",
    "--headless": "there would be no API server, and the probes ask it",
    "--grpc": "the server would speak gRPC, and the probes and clients ask for HTTP",
    **dict.fromkeys(
        ("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs", "--ssl-ciphers"),
        "the server would speak TLS, and the probes and the Service ask for plain HTTP",
    ),
    "--enable-ssl-refresh": "the probes and the Service ask for plain HTTP",
    "--root-path": "the probes ask for /health, without a prefix",
}
UNCHECKED: Final[Mapping[str, str]] = {
    "--config": "a file of arguments gets round what is checked here",
    "--kv-cache-memory-bytes": "it takes the place of gpu_memory_percent, which is checked",
    "--kv-cache-memory": "it takes the place of gpu_memory_percent, which is checked",
    "--num-gpu-blocks-override": "it takes the place of gpu_memory_percent, which is checked",
    "--hf-config-path": "the model's shape would not be that of model.attention",
    "--hf-overrides": "the model's shape would not be that of model.attention",
    **dict.fromkeys(("--help", "-h", "--version", "-v"), "the server prints a text and ends"),
}
SECRETS: Final[Mapping[str, str]] = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
REFUSED: Final = (*OWN_KEYS, *OTHER_GPUS, *ADDRESS, *UNCHECKED, *SECRETS)
_ALLOWED: Final = frozenset(
    {
        # How the model is loaded and run, in the memory that is checked.
        *("--tokenizer", "--tokenizer-mode", "--tokenizer-revision", "--code-revision"),
        *("--trust-remote-code", "--quantization", "-q", "--load-format", "--runner", "--task"),
        *("--convert", "--seed", "--enforce-eager", "--download-dir", "--ignore-patterns"),
        *("--model-loader-extra-config", "--use-tqdm-on-load", "--pt-load-map-location"),
        *("--generation-config", "--override-generation-config", "--config-format"),
        *("--rope-scaling", "--rope-theta", "--skip-tokenizer-init", "--model-impl"),
        *("--logits-processors", "--max-logprobs", "--logprobs-mode", "--enable-sleep-mode"),
        *("--allowed-local-media-path", "--allowed-media-domains", "--limit-mm-per-prompt"),
        *("--mm-processor-kwargs", "--mm-processor-cache-gb", "--media-io-kwargs"),
        *("--mm-encoder-tp-mode", "--skip-mm-profiling", "--enable-prompt-embeds"),
        *("--disable-sliding-window", "--disable-cascade-attn", "--attention-backend"),
        *("--block-size", "--swap-space", "--cpu-offload-gb", "--kv-offloading-size"),
        *("--kv-offloading-backend", "--calculate-kv-scales", "--kv-sharing-fast-prefill"),
        *("--enable-prefix-caching", "--prefix-caching-hash-algo", "--mamba-cache-dtype"),
        *("--mamba-ssm-cache-dtype", "--mamba-block-size", "--max-num-batched-tokens"),
        *("--max-num-partial-prefills", "--max-long-partial-prefills", "--scheduling-policy"),
        *("--long-prefill-token-threshold", "--enable-chunked-prefill", "--async-scheduling"),
        *("--disable-hybrid-kv-cache-manager", "--stream-interval", "--scheduler-cls"),
        *("--enable-lora", "--max-loras", "--max-lora-rank", "--lora-modules", "--max-cpu-loras"),
        *("--lora-dtype", "--fully-sharded-loras", "--default-mm-loras", "--lora-extra-vocab-size"),
        *("--speculative-config", "--compilation-config", "-O", "-cc", "--cuda-graph-sizes"),
        *("--cudagraph-capture-sizes", "--max-cudagraph-capture-size", "--optimization-level"),
        *("--additional-config", "--guided-decoding-backend", "--structured-outputs-config"),
        *("--reasoning-parser", "--reasoning-parser-plugin", "--kv-transfer-config"),
        *("--kv-events-config", "--ec-transfer-config", "--pooler-config"),
        # Parallelism within the GPUs of tensor_parallel.
        *("--decode-context-parallel-size", "-dcp", "--enable-expert-parallel", "-ep"),
        *("--enable-eplb", "--eplb-config", "--all2all-backend", "--disable-custom-all-reduce"),
        *("--distributed-executor-backend", "--max-parallel-loading-workers", "--enable-dbo"),
        *("--ray-workers-use-nsight", "--worker-cls", "--worker-extension-cls"),
        # The requests that the API accepts, and its log.
        *("--chat-template", "--chat-template-content-format", "--response-role"),
        *("--trust-request-chat-template", "--default-chat-template-kwargs"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "--tool-parser-plugin"),
        *("--exclude-tools-when-tool-choice-none", "--tool-server", "--api-server-count", "-asc"),
        *("--allowed-origins", "--allowed-methods", "--allowed-headers", "--allow-credentials"),
        *("--middleware", "--return-tokens-as-token-ids", "--enable-request-id-headers"),
        *("--uvicorn-log-level", "--disable-uvicorn-access-log", "--disable-log-stats"),
        *("--disable-log-requests", "--enable-log-requests", "--enable-log-outputs"),
        *("--max-log-len", "--disable-fastapi-docs", "--enable-prompt-tokens-details"),
        *("--enable-force-include-usage", "--enable-server-load-tracking", "--log-config-file"),
        *("--enable-tokenizer-info-endpoint", "--h11-max-incomplete-event-size"),
        *(
            "--h11-max-header-count",
            "--disable-frontend-multiprocessing",
            "--aggregate-engine-logging",
        ),
        *("--show-hidden-metrics-for-version", "--otlp-traces-endpoint", "--log-error-stack"),
        *("--collect-detailed-traces", "--kv-cache-metrics", "--enable-mfu-metrics"),
    }
)
"""Flags that leave address, readiness, model, memory and GPUs as they are checked here."""
CATALOG: Final = _ALLOWED | frozenset(REFUSED)
