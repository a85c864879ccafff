"""Describes how a metric scales a workload's replicas, for people."""

from __future__ import annotations

from slicewright.infra import manifests, plan


def scaling_lines(
    deployment: plan.DeploymentPlan, scaler: plan.PodAutoscalingPlan | None
) -> list[str]:
    """Returns lines on the formula, the reason for the maximum, missing answers, and the query.

    A cluster's own adapter also needs the rule in the last lines. Empty if the replicas are fixed.
    """
    scaling = deployment.autoscaling
    if scaling is None:
        return []
    metric, request = scaling.metric, scaling.settings
    target = f"{request.target} %" if metric.unit == "percent" else str(request.target)
    formula = (
        f"replicas x {metric.called} / {target}"
        if metric.mean
        else f"one for every {target} of {metric.called}"
    )
    most = (
        "all remaining partitions"
        if request.max == "partitions"
        else f"as stated; there is room for {scaling.places}"
    )
    by_keda = isinstance(scaler, plan.KedaPlan)
    query = (
        manifests.scaling_query(deployment) if by_keda else manifests.pod_metric(deployment).query
    )
    span = f"{scaling.min} to {scaling.max} replicas ({most})"
    lines = [
        f"  is scaled       {span}: {formula}, rounded up",
        f"  measured by     {query}",
    ]
    if request.wake is not None:
        lines.append(
            f"  wakes while     {request.wake} is above 0; sleeps {request.cooldown} after"
        )
    if not by_keda:
        lines.append("  without answer  nothing changes")
        if isinstance(scaler, plan.AdapterPlan) and scaler.existing:
            lines.append("  adapter's rule  for the configuration of the cluster's adapter:")
            lines += [f"    {line}" for line in manifests.adapter_rules([deployment]).splitlines()]
        return lines
    lines.append(f"  without answer  {_fallback(scaling)}")
    return lines


def _fallback(scaling: plan.AutoscalingPlan) -> str:
    """Describes the fallback. As with any autoscaler, the first `failures` times change nothing."""
    fallback, count = scaling.settings.fallback, scaling.fallback_replicas
    replicas = "1 replica" if count == 1 else f"{count} replicas"
    after = f"nothing changes; after more than {fallback.failures} failed answers in a row"
    match fallback.behavior:
        case "currentReplicasIfHigher":
            return f"{after} it keeps its replicas, but has at least {count}"
        case "currentReplicasIfLower":
            return f"{after} it keeps its replicas, but has at most {count}"
        case "currentReplicas":
            return "nothing changes"
        case "static":
            return f"{after} it has {replicas}"
