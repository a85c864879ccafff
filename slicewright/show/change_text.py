"""Formats a change, from the old to the new value, as text for people."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from slicewright.infra import plan
from slicewright.show.monitoring_text import prometheus_text

_WHOLE: Final = (
    plan.AccessEntryPlan,
    plan.AccessPolicyPlan,
    plan.BootLayout,
    plan.HostGpuPlan,
    plan.KarpenterPool,
    plan.MonitoringPlan,
    plan.NodeCount,
    plan.ReplicatedResource,
    plan.Taint,
)
"""Records that are shown whole, not field by field."""
_KEYS: Final[Mapping[type, str]] = {
    plan.AccessEntryPlan: "principal",
    plan.DeploymentPlan: "name",
    plan.EksAddonPlan: "name",
    plan.WorkloadPlan: "name",
}
"""Type of the records in a tuple -> the field that identifies a record."""
_LISTED_WHOLE: Final = (plan.DeploymentPlan, plan.WorkloadPlan)
"""If one of these is new or gone, both tuples are listed."""


def step_text(before: Any, after: Any) -> str:
    """Returns `old -> new`. For mappings and records, only the differences."""
    match before, after:
        case plan.MonitoringPlan(), plan.MonitoringPlan() if type(before.settings) is type(
            after.settings
        ):
            return step_text(before.settings, after.settings)
        case plan.DeploymentPlan(), plan.DeploymentPlan() if before.workload != after.workload:
            return step_text(before.workload, after.workload)
    old, new = _parts(before), _parts(after)
    if old is None or new is None or not _comparable(before, after, old, new):
        return f"{value_text(before)} -> {value_text(after)}"
    keys = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    if not keys and isinstance(before, tuple):
        return "the same in another order"
    return "; ".join(f"{key} {step_text(old.get(key), new.get(key))}" for key in keys)


def _parts(value: Any) -> Mapping[str, Any] | None:
    """Returns the fields of a record, or the records of a tuple. None: the value has no parts."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseModel):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, *_WHOLE)):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and len(types := {type(record) for record in value}) == 1:
        key = _KEYS.get(types.pop())
        return {getattr(record, key): record for record in value} if key else None
    return None


def _comparable(before: Any, after: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return True
    if type(before) is not type(after):
        return False
    if not isinstance(before, tuple):
        return True
    if type(before[0]) is not type(after[0]):
        return False
    return not isinstance(before[0], _LISTED_WHOLE) or old.keys() == new.keys()


def value_text(value: Any) -> str:
    match value:
        case None | ():
            return "none"
        case tuple():
            return ", ".join(map(value_text, value))
        case BaseModel():
            return _model_text(value)
        case plan.NodeCount():
            return nodes_text(value)
        case plan.ReplicatedResource():
            called = f" as {value.advertised}" if value.advertised != value.resource else ""
            alone = ", one per pod" if value.fail_requests_greater_than_one else ""
            return f"{value.resource} x{value.replicas}{called} ({value.strategy}{alone})"
        case plan.BootLayout():
            return _boot_layout_text(value)
        case plan.HostGpuPlan():
            return _host_gpu_text(value)
        case plan.DeploymentPlan():
            return f"{value.name} ({_replicas(value)} x {value.workload.kind})"
        case plan.WorkloadPlan():
            requests = ", ".join(f"{name} {count}" for name, count in value.requests.items())
            return f"{value.name} ({requests})"
        case plan.Taint():
            return f"{value.key}={value.value}:{value.effect}"
        case _:
            return _cluster_text(value)


def _cluster_text(value: Any) -> str:
    """Formats the records of a cluster: its add-ons, scalers, monitoring and access."""
    match value:
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
        case plan.KedaPlan():
            return "the cluster's KEDA" if value.existing else f"KEDA {value.chart_version}"
        case plan.AdapterPlan(existing=True):
            return "the cluster's prometheus-adapter"
        case plan.AdapterPlan():
            return f"prometheus-adapter ({value.image})"
        case plan.MonitoringPlan():
            return prometheus_text(value)
        case _:
            return str(value)


def _boot_layout_text(layout: plan.BootLayout) -> str:
    """Returns `2 x 3g.40gb`, or `GPU 0: 7 x 1g.10gb, GPU 1: whole` if the GPUs differ."""
    texts = [
        " + ".join(f"{count} x {profile}" for profile, count in Counter(gpu).items()) or "whole"
        for gpu in layout.gpus
    ]
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(f"GPU {index}: {text}" for index, text in enumerate(texts))


def _host_gpu_text(gpu: plan.HostGpuPlan) -> str:
    instances = ", ".join(f"{p.profile} at {p.start}" for p in gpu.instances)
    without = "MIG on, no partitions" if gpu.mig else "whole"
    persistence = "" if gpu.persistence else ", no persistence mode"
    return f"GPU {gpu.index}: {instances or without}{persistence}"


def _model_text(model: BaseModel) -> str:
    stated = {name: value_text(value) for name, value in model if value is not None}
    mode = stated.pop("mode", "")
    if not stated:
        return mode
    return f"{mode} ({', '.join(f'{name} {text}' for name, text in stated.items())})".lstrip()


def _replicas(deployment: plan.DeploymentPlan) -> str:
    """`16`, or `1 to 7`."""
    if deployment.autoscaling is None:
        return str(deployment.most)
    return f"{deployment.at_first} to {deployment.most}"


def nodes_text(nodes: plan.NodeCount) -> str:
    if nodes.min < nodes.max:
        return f"{nodes.min} to {nodes.max} nodes"
    return f"{nodes.max} node{'s' if nodes.max != 1 else ''}" + (
        " (min and max)" if nodes.autoscaled else ""
    )
