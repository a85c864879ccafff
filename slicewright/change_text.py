"""Formats a change, from the old to the new value, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from infra import plan
from slicewright.monitoring_text import whose


def step_text(before: Any, after: Any) -> str:
    """Returns `old -> new`. For mappings and records, only the differences."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [
            key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)
        ]
        return "; ".join(f"{key} {step_text(before.get(key), after.get(key))}" for key in keys)
    if isinstance(before, BaseModel) and type(before) is type(after):
        return step_text(dict(before), dict(after))
    if isinstance(before, plan.WorkloadPlan) and isinstance(after, plan.WorkloadPlan):
        return step_text(vars(before), vars(after))
    if isinstance(before, plan.DeploymentPlan) and isinstance(after, plan.DeploymentPlan):
        return step_text(before.workload, after.workload) or step_text(vars(before), vars(after))
    if isinstance(before, plan.EksAddonPlan) and isinstance(after, plan.EksAddonPlan):
        return step_text(vars(before), vars(after))
    if isinstance(before, plan.EksAutoscalerPlan) and isinstance(after, plan.EksAutoscalerPlan):
        return step_text(vars(before), vars(after))
    if isinstance(before, plan.KarpenterPlan) and isinstance(after, plan.KarpenterPlan):
        return step_text(vars(before), vars(after))
    if isinstance(before, plan.MonitoringPlan) and isinstance(after, plan.MonitoringPlan):
        if type(before.settings) is type(after.settings):
            return step_text(before.settings, after.settings)
        return f"{whose(before)} -> {whose(after)}"
    for scaler in (plan.KedaPlan, plan.AdapterPlan):
        if isinstance(before, scaler) and isinstance(after, scaler):
            return step_text(vars(before), vars(after))
    if (
        isinstance(before, tuple)
        and isinstance(after, tuple)
        and {type(one) for one in (*before, *after)} in ({plan.WorkloadPlan}, {plan.DeploymentPlan})
    ):
        old, new = ({share.name: share for share in shares} for shares in (before, after))
        if old.keys() == new.keys():
            return step_text(old, new) or "the same in another order"
    if _addons(before) and _addons(after):
        return step_text(*({addon.name: addon for addon in addons} for addons in (before, after)))
    if _entries(before) and _entries(after):
        return step_text(*({entry.principal: entry for entry in some} for some in (before, after)))
    return f"{value_text(before)} -> {value_text(after)}"


def _addons(value: Any) -> bool:
    return isinstance(value, tuple) and {type(one) for one in value} == {plan.EksAddonPlan}


def _entries(value: Any) -> bool:
    return isinstance(value, tuple) and {type(one) for one in value} == {plan.AccessEntryPlan}


def value_text(value: Any) -> str:
    match value:
        case None | ():
            return "none"
        case plan.NodeCount():
            return nodes_text(value)
        case plan.ReplicatedResource():
            called = f" as {value.advertised}" if value.advertised != value.resource else ""
            alone = ", one per pod" if value.fail_requests_greater_than_one else ""
            return f"{value.resource} x{value.replicas}{called} ({value.strategy}{alone})"
        case plan.EksAddonPlan():
            settings = f" with {value.settings}" if value.settings is not None else ""
            return f"{value.version or 'the version of EKS'}{settings}"
        case plan.EksAutoscalerPlan():
            return f"cluster-autoscaler {value.tag}"
        case plan.KarpenterPlan():
            return f"Karpenter {value.chart_version}"
        case plan.KarpenterPool():
            return "Karpenter"
        case plan.AccessEntryPlan():
            rights = [*map(value_text, value.policies), *(f"group {g}" for g in value.groups)]
            return f"{value.principal} ({', '.join(rights)})"
        case plan.AccessPolicyPlan():
            return " ".join([value.name, *(["in", *value.namespaces] if value.namespaces else [])])
        case plan.HostGpuPlan():
            instances = ", ".join(f"{p.profile} at {p.start}" for p in value.instances)
            without = "MIG on, no partitions" if value.mig else "whole"
            return (
                f"GPU {value.index}: "
                f"{instances or without}{'' if value.persistence else ', no persistence mode'}"
            )
        case plan.DeploymentPlan():
            return f"{value.name} ({_replicas(value)} x {value.workload.kind})"
        case plan.KedaPlan():
            return "the cluster's KEDA" if value.existing else f"KEDA {value.chart_version}"
        case plan.AdapterPlan():
            if value.existing:
                return "the cluster's prometheus-adapter"
            return f"prometheus-adapter ({value.image})"
        case plan.MonitoringPlan():
            return whose(value)
        case plan.WorkloadPlan():
            return (
                f"{value.name} "
                f"({', '.join(f'{name} {count}' for name, count in value.requests.items())})"
            )
        case plan.Taint():
            return f"{value.key}={value.value}:{value.effect}"
        case tuple():
            return ", ".join(map(value_text, value))
        case BaseModel():
            stated = {name: value_text(inner) for name, inner in value if inner is not None}
            mode = stated.pop("mode", "")
            return (
                f"{mode} ({', '.join(f'{k} {v}' for k, v in stated.items())})".lstrip()
                if stated
                else mode
            )
        case _:
            return str(value)


def _replicas(of: plan.DeploymentPlan) -> str:
    """`16`, or `1 to 7`."""
    return str(of.most) if of.autoscaling is None else f"{of.at_first} to {of.most}"


def nodes_text(nodes: plan.NodeCount) -> str:
    if nodes.min < nodes.max:
        return f"{nodes.min} to {nodes.max} nodes"
    return f"{nodes.max} node{'s' if nodes.max != 1 else ''}" + (
        " (min and max)" if nodes.autoscaled else ""
    )
