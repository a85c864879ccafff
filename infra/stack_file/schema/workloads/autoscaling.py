"""Autoscaling of workloads by Prometheus metrics, and the controller that performs it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Tag

from slicewright.infra.stack_file.schema import charts
from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    DnsLabel,
    FreeText,
    IntRange,
    Pattern,
)
from slicewright.infra.stack_file.schema.field_types import Image, NamespaceName
from slicewright.infra.stack_file.schema.model import SpecModel

_KEDA: Final = "keda.sh docs, ScaledObject specification"
_MICROSECONDS: Final = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000}

Duration = Annotated[
    str,
    Pattern(
        pattern=r"[1-9][0-9]{0,8}(?:us|ms|s|m)",
        is_not="a duration: an integer with the unit us, ms, s or m",
        examples=("50ms", "1m"),
        source=OWN_LIMIT,
    ),
]
Pause = Annotated[
    str,
    Pattern(
        pattern=r"(?:0|[1-9][0-9]{0,5})(?:s|m)",
        is_not="a time: an integer with the unit s or m",
        examples=("30s", "5m"),
        source=OWN_LIMIT,
    ),
]
Window = Annotated[
    str,
    Pattern(
        pattern=r"[1-9][0-9]{0,4}(?:s|m)",
        is_not="a time: an integer of at least 1 with the unit s or m",
        examples=("1m", "90s"),
        source="Prometheus docs, querying basics: time durations",
    ),
]
Query = Annotated[
    str,
    Pattern(
        pattern=r"[^\x00-\x1f]{1,4096}",
        is_not="a query: PromQL on one line, of 1 to 4096 characters",
        examples=('sum(rate(requests_total{route="llm"}[1m]))',),
        source="Prometheus docs, querying basics",
    ),
]
Replicas = Annotated[int, IntRange(minimum=0, maximum=5000, unit="replica", source=OWN_LIMIT)]
SomeReplicas = Annotated[int, IntRange(minimum=1, maximum=5000, unit="replica", source=OWN_LIMIT)]


def microseconds(duration: str) -> int:
    """The duration in microseconds: `50ms` -> 50000."""
    unit = duration.lstrip("0123456789")
    return int(duration.removesuffix(unit)) * _MICROSECONDS[unit]


def seconds(pause: str) -> int:
    """The pause in whole seconds, rounded down: `5m` -> 300."""
    return microseconds(pause) // 1_000_000


class Pace(SpecModel):
    """How fast replicas change in one direction."""

    stabilization: Pause | None = None
    """How long the metric must call for the change before it happens. By default 0s for more
    replicas and 5m for fewer.
    """
    replicas: SomeReplicas | None = None
    """Maximum change within `per`. By default unlimited."""
    per: Window = "1m"


class Fallback(SpecModel):
    """The number of replicas while Prometheus does not answer, for KEDA. Without a fallback, the
    number stays unchanged.
    """

    failures: Annotated[int, IntRange(minimum=1, maximum=100, unit="failure", source=_KEDA)] = 3
    """Failed queries in a row before the fallback applies."""
    replicas: SomeReplicas | None = None
    """Replicas of the fallback. By default `min`, or 1 if `min` is 0."""
    behavior: Literal[
        "currentReplicasIfHigher", "currentReplicas", "currentReplicasIfLower", "static"
    ] = "currentReplicasIfHigher"
    """How `replicas` is applied. By default the current number is kept if it is higher."""


class Autoscaling(SpecModel):
    """Scales the replicas between `min` and `max` by a metric."""

    min: Replicas = 1
    """Fewest replicas. 0 needs `wake`."""
    max: Annotated[
        Annotated[SomeReplicas, Tag("number")] | Annotated[Literal["partitions"], Tag("word")],
        Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
    ] = "partitions"
    """Most replicas. `partitions`: as many as the partitions of the pool at its maximum size, minus
    those of all other workloads.
    """
    metric: Literal["queue-time", "requests-waiting", "cache-usage", "query"]
    """`queue-time` (Triton): mean time of a request in the queue. `requests-waiting` (vLLM):
    waiting requests per replica. `cache-usage` (vLLM): usage of the KV cache in percent, averaged
    over the replicas. `query`: the result of `query`.
    """
    target: Annotated[
        Annotated[Duration, Tag("duration")]
        | Annotated[
            Annotated[int, IntRange(minimum=1, maximum=1_000_000_000, source=OWN_LIMIT)],
            Tag("number"),
        ],
        Discriminator(lambda value: "duration" if isinstance(value, str) else "number"),
    ]
    """Target value of the metric: a duration for `queue-time`, else a number."""
    model: (
        Annotated[
            str,
            FreeText(
                "the name of a model",
                "triton-inference-server/server, docs/user_guide/metrics.md",
                "densenet_onnx",
            ),
        ]
        | None
    ) = None
    """Model whose requests count, for `queue-time`. By default all models."""
    query: Query | None = None
    """PromQL for `metric: query`, with a single value: the sum over all replicas."""
    window: Window = "1m"
    """Time over which the metric is averaged."""
    wake: Query | None = None
    """PromQL for `min: 0`, with a single value that does not come from the pods, such as a
    gateway's requests. While the value is above 0, at least one replica runs.
    """
    cooldown: Pause = "5m"
    """Idle time before the last replica is removed, for `min: 0`."""
    scale_up: Pace = Pace()
    scale_down: Pace = Pace()
    fallback: Fallback = Fallback()


PrometheusUrl = Annotated[
    str,
    Pattern(
        pattern=r"https?://[^\s/@]+(?::[0-9]{1,5})?(?:/[^\s@]*)?",
        is_not="the URL of a Prometheus, without a user's name or password",
        examples=("http://prometheus.monitoring.svc:9090",),
        source="Prometheus docs, HTTP API",
    ),
]


class Keda(SpecModel):
    """KEDA, installed by its chart. It creates HorizontalPodAutoscalers with their metrics."""

    by: Literal["keda"] = "keda"
    existing: bool = False
    """The cluster has KEDA 2.18 or later already, and it watches the workloads' namespaces."""
    namespace: NamespaceName = "keda"
    release: Annotated[str, DnsLabel(53, "Helm docs, release names", "keda")] = "keda"
    repository: Annotated[
        str,
        charts.repository("https://kedacore.github.io/charts"),
    ] = "https://kedacore.github.io/charts"
    chart_version: Annotated[
        str,
        Pattern(
            pattern=r"[0-9]+\.[0-9]+\.[0-9]+",
            is_not="a version of KEDA's chart: one exact version, not a range",
            examples=("2.21.0",),
            source="kedacore/charts, keda",
        ),
    ] = "2.21.0"
    prometheus_url: PrometheusUrl | None = None
    """The Prometheus to query. By default the Prometheus of `monitoring`."""


class PrometheusAdapter(SpecModel):
    """prometheus-adapter with a HorizontalPodAutoscaler for each workload, for clusters that may
    not have KEDA. Its project is no longer maintained. It needs cert-manager for its certificate.
    """

    by: Literal["prometheus-adapter"]
    existing: bool = False
    """The cluster has an adapter, and its owner adds the rules from `slicewright plan`. Only
    HorizontalPodAutoscalers are created.
    """
    namespace: NamespaceName = "prometheus-adapter"
    image: Image = "registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0"
    prometheus_url: PrometheusUrl | None = None
    """The Prometheus to query. By default the Prometheus of `monitoring`."""


def _scaler_tag(value: object) -> str:
    by = value.get("by") if isinstance(value, dict) else getattr(value, "by", None)
    return "prometheus-adapter" if by == "prometheus-adapter" else "keda"


PodAutoscaling = Annotated[
    Annotated[Keda, Tag("keda")] | Annotated[PrometheusAdapter, Tag("prometheus-adapter")],
    Discriminator(_scaler_tag),
]
