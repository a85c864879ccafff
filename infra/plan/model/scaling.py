"""An autoscaled workload's plan holds the range of its replicas and the metric that they follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from slicewright.infra import stack_file


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric that the number of replicas can follow."""

    kinds: tuple[str, ...]
    """Kinds of the workloads whose servers have it."""
    unit: Literal["duration", "percent", "number"]
    mean: bool
    """True: a mean over all replicas, whose number is multiplied by value / target. False: a sum,
    divided by the target.
    """
    called: str
    """The metric's name in texts for people."""


METRICS: Final[Mapping[str, Metric]] = {
    "queue-time": Metric(
        kinds=("triton",), unit="duration", mean=True, called="mean time of a request in the queue"
    ),
    "requests-waiting": Metric(
        kinds=("vllm",), unit="number", mean=False, called="requests waiting"
    ),
    "cache-usage": Metric(
        kinds=("vllm",), unit="percent", mean=True, called="percent of the contexts' memory in use"
    ),
    "query": Metric(
        kinds=("vllm", "triton", "container"), unit="number", mean=False, called="the query's value"
    ),
}


@dataclass(frozen=True, kw_only=True)
class AutoscalingPlan:
    """Replicas between two numbers. Two plans are equal if they create the same objects."""

    settings: stack_file.Autoscaling
    max: int
    places: int = field(compare=False)
    """Replicas that find a device, and processor and memory, if no other workload takes them."""
    target: int
    """Microseconds, percent, or a number."""
    fallback_replicas: int

    @property
    def min(self) -> int:
        return self.settings.min

    @property
    def metric(self) -> Metric:
        return METRICS[self.settings.metric]


@dataclass(frozen=True, kw_only=True)
class KedaPlan:
    """KEDA, and the Prometheus that it asks."""

    existing: bool
    """The cluster has it: only its ScaledObjects are made."""
    namespace: str
    release: str
    repository: str
    chart_version: str
    prometheus_url: str
    watched: tuple[str, ...]
    """Namespaces of the workloads that it scales. It may read and change nothing in others."""


@dataclass(frozen=True, kw_only=True)
class AdapterPlan:
    """prometheus-adapter, and the Prometheus that it asks."""

    existing: bool
    """The cluster has one: only HorizontalPodAutoscalers are made."""
    namespace: str
    image: str
    prometheus_url: str
    """Empty if the adapter exists: its owner chooses its Prometheus."""


PodAutoscalingPlan = KedaPlan | AdapterPlan
