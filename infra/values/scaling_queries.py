"""What Prometheus is asked to know how many replicas a workload takes: always one value, or none.

No value means that something is not known, and is never taken for 0: of an idle server the metrics
are 0, of one whose metrics nobody reads there are none.
"""

from __future__ import annotations

from infra.plan import DeploymentPlan


def scaling_query(plan: DeploymentPlan) -> str:
    """Microseconds for times, percent, or a sum over all replicas."""
    scaling = plan.autoscaling
    assert scaling is not None
    asked, pods = scaling.asked, _pods(plan)
    match asked.metric:
        case "queue-time":
            found = _queue_time(pods, asked.model, asked.window)
        case "requests-waiting":
            found = f"sum(avg_over_time(vllm:num_requests_waiting{{{pods}}}[{asked.window}]))"
        case "cache-usage":
            found = _cache_usage(pods, asked.window)
        case "query":
            assert asked.query is not None, "the plan refuses it"
            return asked.query
    # Without pods nothing can have a queue; where there are some and no metrics, it is not known.
    return f"({found}) or (vector(0) unless on() up{{{pods}}})" if scaling.min == 0 else found


def waking_query(query: str) -> str:
    """1 where its value is above 0, else 0."""
    return f"({query}) > bool 0"


def _queue_time(pods: str, model: str | None, window: str) -> str:
    """The mean of all requests, not of the replicas' means. Both counters are rates, which restarts
    do not make negative; below one request in ten seconds the mean is taken for smaller than it is,
    so that a single slow one starts nothing. Idle: 0. Source of the names:
    triton-inference-server/server, docs/user_guide/metrics.md.
    """
    of = pods if model is None else f'{pods},model="{_quoted(model)}"'
    return (
        f"sum(rate(nv_inference_queue_duration_us{{{of}}}[{window}])) / "
        f"clamp_min(sum(rate(nv_inference_request_success{{{of}}}[{window}])), 0.1)"
    )


def _cache_usage(pods: str, window: str) -> str:
    """Under the name that vLLM gives it now, or the one before. Source: vLLM docs, production
    metrics.
    """
    new, old = (
        f"avg_over_time(vllm:{name}_usage_perc{{{pods}}}[{window}])"
        for name in ("kv_cache", "gpu_cache")
    )
    return f"100 * avg({new} or {old})"


def _pods(plan: DeploymentPlan) -> str:
    """A Deployment's pods are named after it, its revision and themselves. The dash between these
    two goes where the name is too long. Source: kubernetes/apiserver, names/generate.go.
    """
    return f'namespace="{plan.namespace}",pod=~"{plan.name}-[a-z0-9]{{1,10}}-?[a-z0-9]{{5}}"'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
