"""vLLM's command line, as its own argument parser reads it.

Source: vllm/engine/arg_utils.py and vllm/entrypoints/openai/cli_args.py of 0.6.2 and 0.7.3, on
PyPI.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

_KNOWN_RELEASES: Final = ("0.6", "0.7")
"""Of later ones not every flag is known here, so an unknown one is only reported."""
_ABSENT: Final[Mapping[str, frozenset[str]]] = {
    "0.6.2": frozenset(
        f"--{name}"
        for name in (
            "additional-config", "allowed-local-media-path", "calculate-kv-scales",
            "chat-template-content-format", "compilation-config",
            "disable-mm-preprocessor-cache", "enable-lora-bias", "enable-prompt-tokens-details",
            "enable-reasoning", "enable-request-id-headers", "enable-sleep-mode",
            "generation-config", "hf-overrides", "kv-transfer-config",
            "logits-processor-pattern", "long-prefill-token-threshold",
            "max-long-partial-prefills", "max-num-partial-prefills", "model-impl",
            "no-enable-prefix-caching", "override-generation-config", "override-pooler-config",
            "reasoning-parser", "scheduler-cls", "scheduling-policy",
            "speculative-disable-mqa-scorer", "task", "tool-parser-plugin", "worker-cls",
        )
    ),
    "0.7.3": frozenset(
        ("--max-context-len-to-capture", "--quantization-param-path", "--worker-use-ray")
    ),
}  # fmt: skip
"""Flags that another release has: of the releases of which each is known."""
_DEFAULT_LEN: Final = 8192
"""The model's own length of context is in its config.json, which is not downloaded here."""
_DTYPES: Final = ("auto", "half", "float16", "bfloat16", "float", "float32")
_TYPED: Final[Mapping[str, Mapping[str, Any]]] = {
    "--host": {"default": "0.0.0.0"},  # noqa: S104 - vLLM's own default; a pod has one address
    "--port": {"type": int, "default": 8000},
    "--model": {"default": "facebook/opt-125m"},
    "--served-model-name": {"nargs": "+"},
    "--api-key": {},
    "--dtype": {"choices": _DTYPES, "default": "auto"},
    "--kv-cache-dtype": {"choices": ("auto", "fp8", "fp8_e5m2", "fp8_e4m3"), "default": "auto"},
    "--tensor-parallel-size": {"type": int, "default": 1},
    "--pipeline-parallel-size": {"type": int, "default": 1},
    "--gpu-memory-utilization": {"type": float, "default": 0.9},
    "--max-model-len": {"type": int, "default": _DEFAULT_LEN},
    "--max-num-seqs": {"type": int, "default": 256},
    "--swap-space": {"type": float, "default": 4.0},
    "--download-dir": {},
}
_SHORT: Final[Mapping[str, str]] = {
    "--tensor-parallel-size": "-tp",
    "--pipeline-parallel-size": "-pp",
    "--quantization": "-q",
    "--speculative-draft-tensor-parallel-size": "-spec-draft-tp",
    "--compilation-config": "-O",
}
_INTEGERS: Final = (
    "block-size", "max-context-len-to-capture", "max-cpu-loras", "max-log-len", "max-logprobs",
    "max-long-partial-prefills", "max-lora-rank", "max-loras", "max-num-batched-tokens",
    "max-num-partial-prefills", "max-parallel-loading-workers", "max-prompt-adapter-token",
    "max-prompt-adapters", "max-seq-len-to-capture", "ngram-prompt-lookup-max",
    "ngram-prompt-lookup-min", "num-gpu-blocks-override", "num-lookahead-slots",
    "num-scheduler-steps", "num-speculative-tokens", "seed", "speculative-disable-by-batch-size",
    "speculative-draft-tensor-parallel-size", "speculative-max-model-len", "ssl-cert-reqs",
    "tokenizer-pool-size", "lora-extra-vocab-size",
)  # fmt: skip
_NUMBERS: Final = (
    "cpu-offload-gb", "long-prefill-token-threshold", "rope-theta", "scheduler-delay-factor",
    "typical-acceptance-sampler-posterior-alpha",
    "typical-acceptance-sampler-posterior-threshold",
)  # fmt: skip
_TEXTS: Final = (
    "additional-config", "allowed-headers", "allowed-local-media-path", "allowed-methods",
    "allowed-origins", "chat-template", "chat-template-content-format", "code-revision",
    "collect-detailed-traces", "compilation-config", "config", "config-format", "device",
    "distributed-executor-backend", "generation-config", "guided-decoding-backend",
    "hf-overrides", "kv-transfer-config", "limit-mm-per-prompt", "load-format",
    "logits-processor-pattern", "long-lora-scaling-factors", "lora-dtype", "mm-processor-kwargs",
    "model-impl", "model-loader-extra-config", "otlp-traces-endpoint",
    "override-generation-config", "override-neuron-config", "override-pooler-config",
    "preemption-mode", "qlora-adapter-name-or-path", "quantization", "quantization-param-path",
    "reasoning-parser", "response-role", "revision", "root-path", "rope-scaling", "scheduler-cls",
    "scheduling-policy", "spec-decoding-acceptance-method", "speculative-model",
    "speculative-model-quantization", "ssl-ca-certs", "ssl-certfile", "ssl-keyfile", "task",
    "tokenizer", "tokenizer-mode", "tokenizer-pool-extra-config", "tokenizer-pool-type",
    "tokenizer-revision", "tool-call-parser", "tool-parser-plugin", "uvicorn-log-level",
    "worker-cls",
)  # fmt: skip
_LISTS: Final = ("lora-modules", "prompt-adapters")
_AGAIN: Final = ("ignore-patterns", "middleware")
"""With one value each time."""
_SWITCHES: Final = (
    "allow-credentials", "calculate-kv-scales", "disable-async-output-proc",
    "disable-custom-all-reduce", "disable-fastapi-docs", "disable-frontend-multiprocessing",
    "disable-log-requests", "disable-log-stats", "disable-mm-preprocessor-cache",
    "disable-sliding-window", "enable-auto-tool-choice", "enable-lora", "enable-lora-bias",
    "enable-prefix-caching", "enable-prompt-adapter", "enable-prompt-tokens-details",
    "enable-reasoning", "enable-request-id-headers", "enable-sleep-mode", "enforce-eager",
    "fully-sharded-loras", "no-enable-prefix-caching", "ray-workers-use-nsight",
    "return-tokens-as-token-ids", "skip-tokenizer-init", "speculative-disable-mqa-scorer",
    "trust-remote-code", "use-v2-block-manager", "worker-use-ray",
)  # fmt: skip
_BOTH_WAYS: Final = (
    "enable-chunked-prefill", "multi-step-stream-outputs",
    "disable-logprobs-during-spec-decoding",
)  # fmt: skip
"""With or without a value, `--enable-chunked-prefill=false`."""


class WrongFlags(Exception):
    """The command line is not vLLM's; the message is what its parser prints."""


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What the stand-in does with a command line; all other flags are only read."""

    host: str
    port: int
    model: str
    names: tuple[str, ...]
    """Of the model, for clients; the first is that of the metrics."""
    dtype: str
    devices: int
    """GPUs of one replica: tensor times pipeline parallelism."""
    gpu_memory_utilization: float
    max_model_len: int
    max_num_seqs: int
    api_key: str | None
    download_dir: str | None
    unknown: tuple[str, ...] = ()
    """Flags of a release that is not known here."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongFlags(f"{self.prog}: error: {message}")


def parse(arguments: Sequence[str], *, release: str) -> Flags:
    """release: of the image's tag, `0.6.2`. Raises WrongFlags."""
    parser = _parser(_ABSENT.get(release, frozenset()))
    settings, unknown = parser.parse_known_args([_with_dashes(argument) for argument in arguments])
    if unknown and release.startswith(tuple(f"{version}." for version in _KNOWN_RELEASES)):
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if not 0 < settings.gpu_memory_utilization <= 1:
        raise WrongFlags(
            "ValueError: GPU memory utilization must be less than 1.0. Got "
            f"{settings.gpu_memory_utilization}."
        )
    return Flags(
        host=settings.host,
        port=settings.port,
        model=settings.model,
        names=tuple(settings.served_model_name or [settings.model]),
        dtype=settings.dtype,
        devices=settings.tensor_parallel_size * settings.pipeline_parallel_size,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_num_seqs,
        api_key=settings.api_key,
        download_dir=settings.download_dir,
        unknown=tuple(unknown),
    )


def option_strings(release: str) -> frozenset[str]:
    """Every flag that is read for a release."""
    actions = _parser(_ABSENT.get(release, frozenset()))._actions
    return frozenset(name for action in actions for name in action.option_strings)


def _parser(absent: frozenset[str]) -> _Parser:
    parser = _Parser(prog="api_server.py", add_help=False)
    for name, kind in _TYPED.items():
        parser.add_argument(*_names(name), **kind)
    for names, kind in (
        (_INTEGERS, {"type": int}),
        (_NUMBERS, {"type": float}),
        (_TEXTS, {}),
        (_LISTS, {"nargs": "+"}),
        (_AGAIN, {"action": "append"}),
        (_SWITCHES, {"action": "store_true"}),
        (_BOTH_WAYS, {"nargs": "?"}),
    ):
        for name in (f"--{name}" for name in names):
            if name not in absent:
                parser.add_argument(*_names(name), **kind)
    return parser


def _names(name: str) -> list[str]:
    return [name, *([_SHORT[name]] if name in _SHORT else [])]


def _with_dashes(argument: str) -> str:
    """`--max_model_len=1` is `--max-model-len=1`; values keep their underscores."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}"
