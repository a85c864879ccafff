"""The queries to Prometheus for a workload's number of replicas: always one value, or none.

No value means that something is unknown, and is never taken for 0: an idle server's metrics are 0,
and a server that is not scraped has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slicewright.infra.plan import DeploymentPlan
from slicewright.infra.stack_file import microseconds

_QUEUED: Final = "nv_inference_queue_duration_us"
_ANSWERED: Final = "nv_inference_request_success"
_PENDING: Final = "nv_inference_pending_request_count"
_REPLICAS: Final = "kube_deployment_status_replicas"
_WAITING: Final = "vllm:num_requests_waiting"


def scaling_query(plan: DeploymentPlan) -> str:
    """Microseconds for times, percent, or a sum over all replicas."""
    scaling = plan.autoscaling
    assert scaling is not None
    settings, pods = scaling.settings, _pods(plan)
    match settings.metric:
        case "queue-time":
            query = _queue_time(_with_model(pods, settings.model), settings.window)
        case "requests-waiting":
            query = f"sum(avg_over_time({_WAITING}{{{pods}}}[{settings.window}]))"
        case "cache-usage":
            query = _cache_usage(pods, settings.window)
        case "query":
            assert settings.query is not None, "the plan refuses it"
            return settings.query
    if scaling.min > 0:
        return query
    # Without pods there is no queue, but missing metrics of pods do not prove that there are none:
    # kube-state-metrics must say so. If it does not run, the number of replicas is unknown: KEDA
    # complains while the workload sleeps, and the workload wakes all the same.
    return f"({query}) or sum({_REPLICAS}{{{_deployment(plan)}}} == 0)"


@dataclass(frozen=True)
class PodMetric:
    """A metric of single pods, as prometheus-adapter is configured with it."""

    name: str
    """Name of the custom metric: for one workload, because window and model are the workload's."""
    series: str
    """Series that identify the pods with this metric."""
    query: str
    """The template of the query. The adapter replaces `<<.LabelMatchers>>` by the pods' labels."""


def pod_metric(plan: DeploymentPlan) -> PodMetric:
    """The metric behind `scaling_query`, for single pods. A query of the stack file has none."""
    scaling = plan.autoscaling
    assert scaling is not None
    settings, selected_pods = scaling.settings, "<<.LabelMatchers>>"
    name = plan.name.replace("-", "_")
    match settings.metric:
        case "queue-time":
            matchers = _with_model(selected_pods, settings.model)
            return PodMetric(
                f"avg_time_queue_us_{name}",
                f"{_QUEUED}{{{_pods(plan)}}}",
                _queue_time(matchers, settings.window, by=" by (<<.GroupBy>>)"),
            )
        case "requests-waiting":
            return PodMetric(
                f"requests_waiting_{name}",
                f"{_WAITING}{{{_pods(plan)}}}",
                f"sum(avg_over_time({_WAITING}{{{selected_pods}}}[{settings.window}])) "
                "by (<<.GroupBy>>)",
            )
        case "cache-usage":
            either = '__name__=~"vllm:(kv|gpu)_cache_usage_perc"'
            return PodMetric(
                f"cache_usage_percent_{name}",
                f"{{{either},{_pods(plan)}}}",
                f"100 * avg(avg_over_time({{{either},{selected_pods}}}[{settings.window}])) "
                "by (<<.GroupBy>>)",
            )
        case "query":
            raise AssertionError("the plan refuses it")


def waking_query(query: str) -> str:
    """A query whose value is 1 if the value of `query` is above 0, else 0."""
    return f"({query}) > bool 0"


def _queue_time(matchers: str, window: str, *, by: str = "") -> str:
    """The mean of all requests, not of the replicas' means. Both counters are rates, which restarts
    do not make negative. Below one request in ten seconds the result is smaller than the mean, so
    that a single slow request starts nothing. Idle: 0.

    Both count a request when it is answered. If none was answered in the whole window and some
    waited at each of its samples, these have waited for the whole window. Older versions of Triton
    do not report the number of waiting requests: without it, nothing is added. Source of the names:
    triton-inference-server/server, docs/user_guide/metrics.md.
    """
    waited, answered = (f"sum(rate({s}{{{matchers}}}[{window}])){by}" for s in (_QUEUED, _ANSWERED))
    pending = f"sum(min_over_time({_PENDING}{{{matchers}}}[{window}])){by}"
    stuck = f"{microseconds(window)} * ({answered} == bool 0) * ({pending} > bool 0)"
    return f"{waited} / clamp_min({answered}, 0.1) + ({stuck} or 0 * {answered})"


def _with_model(pods: str, model: str | None) -> str:
    return pods if model is None else f'{pods},model="{_quoted(model)}"'


def _cache_usage(pods: str, window: str) -> str:
    """The cache's usage, under vLLM's present name of the metric or its earlier one. Source: vLLM
    docs, production metrics.
    """
    new, old = (
        f"avg_over_time(vllm:{name}_usage_perc{{{pods}}}[{window}])"
        for name in ("kv_cache", "gpu_cache")
    )
    return f"100 * avg({new} or {old})"


def _pods(plan: DeploymentPlan) -> str:
    """A pod's name has the Deployment's, the revision's and its own part. If the name is too long,
    the dash between the last two is left out. Source: kubernetes/apiserver, names/generate.go.
    """
    return f'namespace="{plan.namespace}",pod=~"{plan.name}-[a-z0-9]{{1,10}}-?[a-z0-9]{{5}}"'


def _deployment(plan: DeploymentPlan) -> str:
    """The Deployment's labels in kube-state-metrics. Source: kubernetes/kube-state-metrics,
    docs/metrics/workload/deployment-metrics.md.
    """
    return f'namespace="{plan.namespace}",deployment="{plan.name}"'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
