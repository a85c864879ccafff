"""How many replicas a workload has, by what Prometheus knows of it; and who changes them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Discriminator, Tag

from infra.spec.schema import charts
from infra.spec.schema.constraints import OWN_LIMIT, DnsLabel, FreeText, IntRange, Pattern
from infra.spec.schema.field_types import Image, NamespaceName
from infra.spec.schema.model import SpecModel

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
    """`50ms` -> 50000."""
    unit = duration.lstrip("0123456789")
    return int(duration.removesuffix(unit)) * _MICROSECONDS[unit]


def seconds(pause: str) -> int:
    """`5m` -> 300. Whole seconds: rounded down."""
    return microseconds(pause) // 1_000_000


class Pace(SpecModel):
    """How fast replicas change in one direction."""

    stabilization: Pause | None = None
    """How long it must have been wanted. By default 0s for more replicas and 5m for fewer."""
    replicas: SomeReplicas | None = None
    """At most so many in the time of `per`. By default as many as it takes."""
    per: Window = "1m"


class Fallback(SpecModel):
    """What holds where Prometheus has no answer. KEDA's; an autoscaler without it changes nothing
    then.
    """

    failures: Annotated[int, IntRange(minimum=1, maximum=100, unit="failure", source=_KEDA)] = 3
    """Answers that fail in a row, before it holds."""
    replicas: SomeReplicas | None = None
    """By default `min`, or 1 where that is 0."""
    behavior: Literal[
        "currentReplicasIfHigher", "currentReplicas", "currentReplicasIfLower", "static"
    ] = "currentReplicasIfHigher"
    """By default as many as there are, if they are more than `replicas`."""


class Autoscaling(SpecModel):
    """Replicas between `min` and `max`, as a metric asks."""

    min: Replicas = 1
    """0 needs `wake`."""
    max: Annotated[
        Annotated[SomeReplicas, Tag("number")] | Annotated[Literal["partitions"], Tag("word")],
        Discriminator(lambda value: "word" if isinstance(value, str) else "number"),
    ] = "partitions"
    """`partitions`: as many as find a partition on as many nodes as the pool may have, if all other
    workloads have all of theirs.
    """
    metric: Literal["queue-time", "requests-waiting", "cache-usage", "query"]
    """`queue-time` (Triton): mean time that a request waits. `requests-waiting` (vLLM): of all
    replicas, for each of them. `cache-usage` (vLLM): percent of the memory for contexts, mean of
    the replicas. `query`: one of your own.
    """
    target: Annotated[
        Annotated[Duration, Tag("duration")]
        | Annotated[
            Annotated[int, IntRange(minimum=1, maximum=1_000_000_000, source=OWN_LIMIT)],
            Tag("number"),
        ],
        Discriminator(lambda value: "duration" if isinstance(value, str) else "number"),
    ]
    """What the metric should be: a duration for `queue-time`, else a number."""
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
    """With `queue-time`: only requests of this model. By default those of all."""
    query: Query | None = None
    """With `metric: query`: PromQL with one value, the sum over all replicas."""
    window: Window = "1m"
    """Over which the metric is a mean."""
    wake: Query | None = None
    """With `min: 0`: PromQL with one value, of something outside the pods, such as a gateway's
    requests. While it is above 0 there is at least one replica.
    """
    cooldown: Pause = "5m"
    """With `min: 0`: how long nothing must be asked before the last replica goes."""
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
    """KEDA, by its chart: it makes a HorizontalPodAutoscaler and gives it its metrics."""

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
    """Whom it asks. By default the Prometheus of `monitoring`."""


class PrometheusAdapter(SpecModel):
    """prometheus-adapter with a HorizontalPodAutoscaler for each workload. Its project has ended:
    for clusters that may not have KEDA. It needs cert-manager, for its certificate.
    """

    by: Literal["prometheus-adapter"]
    existing: bool = False
    """The cluster has an adapter, whose owner adds the rules that `slicewright plan` shows: only
    HorizontalPodAutoscalers are made.
    """
    namespace: NamespaceName = "prometheus-adapter"
    image: Image = "registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0"
    prometheus_url: PrometheusUrl | None = None
    """Whom it asks. By default the Prometheus of `monitoring`."""


def _by(value: object) -> str:
    adapter = isinstance(value, dict) and value.get("by") == "prometheus-adapter"
    return "prometheus-adapter" if adapter else "keda"


PodAutoscaling = Annotated[
    Annotated[Keda, Tag("keda")] | Annotated[PrometheusAdapter, Tag("prometheus-adapter")],
    Discriminator(_by),
]
