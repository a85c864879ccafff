"""The flags of tritonserver by their effect.

Source: triton-inference-server/server, src/command_line_parser.cc and docs/user_guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWN_KEYS: Final[Mapping[str, str]] = {
    "--model-repository": "model_repository",
    "--model-store": "model_repository",
    "--model-control-mode": "model_control",
    "--load-model": "load_models",
    "--exit-timeout-secs": "grace_seconds",
}
"""Flags -> the keys that state them."""
PORTS: Final = (
    *("--http-port", "--grpc-port", "--metrics-port"),
    *("--http-address", "--grpc-address", "--metrics-address"),
)
SERVERS: Final[Mapping[str, str]] = {
    "--allow-http": "the probes and clients ask its HTTP server",
    "--allow-metrics": "Prometheus, and with it autoscaling, reads its metrics",
    "--strict-readiness": "pods count as ready when their models are loaded, not before",
    "--allow-vertex-ai": "Vertex AI's server takes the place of the HTTP server",
    "--allow-sagemaker": "the Service has no port of SageMaker's server",
    "--help": "the server prints a text and ends",
    "--version": "the server prints a text and ends",
}
RESTRICTED_APIS: Final = ("--http-restricted-api", "--http-restricted-protocol")
"""Flags that let only requests with a certain header use an API: `health,metadata:key=value`."""
PROBED_API: Final = "health"
REFUSED: Final = (*OWN_KEYS, *PORTS, *SERVERS)
_ALLOWED: Final = frozenset(
    {
        *("--id", "--log-verbose", "--log-info", "--log-warning", "--log-error", "--log-format"),
        *("--log-file", "--exit-on-error", "--disable-auto-complete-config"),
        *("--strict-model-config", "--model-load-thread-count", "--model-load-retry-count"),
        *("--model-load-gpu-limit", "--model-namespacing", "--enable-peer-access"),
        *("--repository-poll-secs", "--repoagent-directory", "--backend-directory"),
        *("--backend-config", "--host-policy", "--rate-limit", "--rate-limit-resource"),
        *("--pinned-memory-pool-byte-size", "--cuda-memory-pool-byte-size"),
        *("--cuda-virtual-address-size", "--min-supported-compute-capability"),
        *("--buffer-manager-thread-count", "--response-cache-byte-size", "--cache-config"),
        *("--cache-directory", "--trace-config", "--trace-file", "--trace-level", "--trace-rate"),
        *("--trace-count", "--trace-log-frequency", "--metrics-config", "--metrics-interval-ms"),
        *("--allow-gpu-metrics", "--allow-cpu-metrics", "--allow-grpc"),
        *("--http-thread-count", "--http-header-forward-pattern", "--http-max-input-size"),
        *("--reuse-http-port", "--reuse-grpc-port", "--grpc-header-forward-pattern"),
        *("--grpc-infer-allocation-pool-size", "--grpc-infer-thread-count", "--grpc-use-ssl"),
        *("--grpc-use-ssl-mutual", "--grpc-server-cert", "--grpc-server-key", "--grpc-root-cert"),
        *("--grpc-infer-response-compression-level", "--grpc-keepalive-time"),
        *("--grpc-keepalive-timeout", "--grpc-keepalive-permit-without-calls"),
        *("--grpc-http2-max-pings-without-data", "--grpc-max-connection-age"),
        *("--grpc-http2-min-recv-ping-interval-without-data", "--grpc-http2-max-ping-strikes"),
        *("--grpc-max-connection-age-grace", "--grpc-restricted-protocol"),
        *("--grpc-max-response-pool-size", "--sagemaker-port", "--sagemaker-safe-port-range"),
        *("--sagemaker-thread-count", "--vertex-ai-port", "--vertex-ai-thread-count"),
        *("--vertex-ai-default-model", *RESTRICTED_APIS),
    }
)
"""Flags that leave address, readiness, models and memory as they are checked here."""
CATALOG: Final = _ALLOWED | frozenset(REFUSED)
