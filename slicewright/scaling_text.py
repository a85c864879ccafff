"""Describes how a metric scales a workload's replicas, for people."""

from __future__ import annotations

from infra import plan, values


def scaling_lines(one: plan.DeploymentPlan, scaler: plan.PodAutoscalingPlan | None) -> list[str]:
    """Returns lines on the formula, the reason for the maximum, missing answers, and the query.

    A cluster's own adapter also needs the rule in the last lines. Empty if the replicas are fixed.
    """
    scaling = one.autoscaling
    if scaling is None:
        return []
    metric, asked = scaling.metric, scaling.settings
    target = f"{asked.target} %" if metric.unit == "percent" else str(asked.target)
    formula = (
        f"replicas x {metric.called} / {target}"
        if metric.mean
        else f"one for every {target} of {metric.called}"
    )
    most = (
        "all partitions that are left for it"
        if asked.max == "partitions"
        else f"stated; there is room for {scaling.places}"
    )
    by_keda = isinstance(scaler, plan.KedaPlan)
    query = values.scaling_query(one) if by_keda else values.pod_metric(one).query
    span = f"{scaling.min} to {scaling.max} replicas ({most})"
    found = [
        f"  is scaled       {span}: {formula}, rounded up",
        f"  measured by     {query}",
    ]
    if asked.wake is not None:
        found.append(f"  wakes while     {asked.wake} is above 0; sleeps {asked.cooldown} after")
    if not by_keda:
        found.append("  without answer  nothing changes")
        if isinstance(scaler, plan.AdapterPlan) and scaler.existing:
            found.append("  adapter's rule  for the configuration of the cluster's adapter:")
            found += [f"    {line}" for line in values.adapter_rules([one]).splitlines()]
        return found
    found.append(f"  without answer  {_fallback(scaling)}")
    return found


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
