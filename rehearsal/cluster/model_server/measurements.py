"""The metrics of vLLM's /metrics, by its names, in Prometheus' text format.

Nothing here has a cache of keys and values: how full it is follows from the tokens that run.
Source: vLLM docs, production metrics (vllm/engine/metrics.py).
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from slicewright.telemetry.prometheus import Family, Sample, labels, lines

_LONGEST_CONTEXTS: Final = 4
"""Of so many is the memory full. Chosen, not measured."""
_FIRST_TOKEN_S: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
_OUTPUT_TOKEN_S: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
)  # fmt: skip
_WHOLE_S: Final = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)


@dataclass
class Histogram:
    """Cumulative when written, as Prometheus wants it."""

    bounds: Sequence[float]
    _counts: Counter[int] = field(default_factory=Counter)
    _sum: float = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect.bisect_left(self.bounds, value)] += 1
        self._sum += value

    def samples(self, model: str) -> Iterator[Sample]:
        reached = 0
        for i, bound in enumerate((*map(str, self.bounds), "+Inf")):
            reached += self._counts[i]
            yield Sample(labels(le=bound, model_name=model), reached, "_bucket")
        yield Sample(labels(model_name=model), reached, "_count")
        yield Sample(labels(model_name=model), self._sum, "_sum")


def powers(most: int) -> tuple[int, ...]:
    """1, 2, 5, 10, … up to `most`: vLLM's buckets for numbers of tokens."""
    powers_of_ten: list[int] = []
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power > most:
                return tuple(powers_of_ten)
            powers_of_ten.append(step * power)
        power *= 10


@dataclass
class Measurements:
    """What finished requests have left; `text` adds what is going on."""

    model: str
    max_model_len: int
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    """By the reason: stop, length or abort."""
    first_token: Histogram = field(default_factory=lambda: Histogram(_FIRST_TOKEN_S))
    output_token: Histogram = field(default_factory=lambda: Histogram(_OUTPUT_TOKEN_S))
    whole: Histogram = field(default_factory=lambda: Histogram(_WHOLE_S))

    def __post_init__(self) -> None:
        self.request_prompt = Histogram(powers(self.max_model_len))
        self.request_generation = Histogram(powers(self.max_model_len))

    def finish(
        self, reason: str, *, prompt: int, generated: int, first_s: float, whole_s: float
    ) -> None:
        """first_s, whole_s: from the request's arrival to its first and its last token."""
        self.finished[reason] += 1
        self.whole.observe(whole_s)
        self.request_prompt.observe(prompt)
        self.request_generation.observe(generated)
        if generated > 1:
            self.output_token.observe((whole_s - first_s) / (generated - 1))

    def text(
        self, *, running: int, waiting: int, held_tokens: int, tokens_per_second: float
    ) -> str:
        """held_tokens: of all contexts in memory."""
        families = (
            *self._gauges(
                running=running,
                waiting=waiting,
                held_tokens=held_tokens,
                tokens_per_second=tokens_per_second,
            ),
            *self._counters(),
            *self._histograms(),
        )
        return "".join(f"{line}\n" for family in families for line in lines(family))

    def _gauges(
        self, *, running: int, waiting: int, held_tokens: int, tokens_per_second: float
    ) -> tuple[Family, ...]:
        full = min(held_tokens / (_LONGEST_CONTEXTS * self.max_model_len), 1.0)
        model = labels(model_name=self.model)
        return (
            Family(
                "simulated_tokens_per_second",
                "gauge",
                "No model runs: tokens that this stand-in makes in a second at full load.",
                (Sample(model, tokens_per_second),),
            ),
            Family(
                "vllm:num_requests_running",
                "gauge",
                "Requests currently running on GPU.",
                (Sample(model, running),),
            ),
            Family(
                "vllm:num_requests_waiting",
                "gauge",
                "Requests waiting to be processed.",
                (Sample(model, waiting),),
            ),
            Family(
                "vllm:gpu_cache_usage_perc",
                "gauge",
                "GPU KV-cache usage. 1 means 100 percent usage.",
                (Sample(model, full),),
            ),
        )

    def _counters(self) -> tuple[Family, ...]:
        model = labels(model_name=self.model)
        counted = tuple(
            Sample(labels(finished_reason=reason, model_name=self.model), count)
            for reason, count in sorted(self.finished.items())
        )
        return (
            Family(
                "vllm:prompt_tokens_total",
                "counter",
                "Prefill tokens processed.",
                (Sample(model, self.prompt_tokens),),
            ),
            Family(
                "vllm:generation_tokens_total",
                "counter",
                "Generation tokens processed.",
                (Sample(model, self.generation_tokens),),
            ),
            Family(
                "vllm:request_success_total",
                "counter",
                "Successfully processed requests.",
                counted,
            ),
        )

    def _histograms(self) -> tuple[Family, ...]:
        histograms = (
            ("vllm:time_to_first_token_seconds", "Time to first token.", self.first_token),
            ("vllm:time_per_output_token_seconds", "Time per output token.", self.output_token),
            ("vllm:e2e_request_latency_seconds", "End to end request latency.", self.whole),
            ("vllm:request_prompt_tokens", "Prefill tokens by request.", self.request_prompt),
            (
                "vllm:request_generation_tokens",
                "Generation tokens by request.",
                self.request_generation,
            ),
        )
        return tuple(
            Family(name, "histogram", text, tuple(histogram.samples(self.model)))
            for name, text, histogram in histograms
        )
