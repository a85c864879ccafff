"""Workloads that are scaled: KEDA's ScaledObjects, and the values of its chart.

Sources: kedacore/keda v2.21.0, apis/keda/v1alpha1 and pkg/scalers/prometheus_scaler.go;
kedacore/charts, keda/values.yaml of 2.21.0.
"""

from __future__ import annotations

from typing import Final

from slicewright.infra.manifests.helm_charts import ChartAddress, chart_address
from slicewright.infra.manifests.placement import system_labels
from slicewright.infra.manifests.scaling.queries import scaling_query, waking_query
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.manifests.workloads.heads import head
from slicewright.infra.plan import KEDA_POLL_S, AutoscalingPlan, DeploymentPlan, FleetPlan, KedaPlan
from slicewright.infra.stack_file import Pace, seconds

_CHART: Final = "keda"
_DOWN_S: Final = 300
"""Kubernetes' default of scaleDown.stabilizationWindowSeconds."""


def keda_chart(fleet: FleetPlan) -> ChartAddress:
    plan = fleet.pod_autoscaling
    assert isinstance(plan, KedaPlan)
    return chart_address(_CHART, plan.repository)


def keda_values(fleet: FleetPlan) -> JsonObject:
    """The chart's values. KEDA may scale Deployments of the watched namespaces, and read Secrets of
    its own namespace only.
    """
    plan = fleet.pod_autoscaling
    assert isinstance(plan, KedaPlan)
    values: JsonObject = {
        "watchNamespace": ",".join(plan.watched),
        "crds": {"install": True},
        # The plan makes their checks, and every write in the cluster would call them.
        "webhooks": {"enabled": False},
        "permissions": {
            "operator": {"restrict": {"secret": True}},
            "metricServer": {"restrict": {"secret": True}},
        },
        "rbac": {"aggregateToDefaultRoles": False, "enabledCustomScaledRefKinds": False},
        "resources": {
            "operator": {
                "requests": {"cpu": "100m", "memory": "100Mi"},
                "limits": {"memory": "1000Mi"},
            },
            "metricServer": {
                "requests": {"cpu": "100m", "memory": "100Mi"},
                "limits": {"memory": "1000Mi"},
            },
        },
    }
    if labels := system_labels(fleet):
        # Not on a GPU node, which scaling may remove.
        values["nodeSelector"] = dict(labels)
    return values


def scaled_object(plan: DeploymentPlan, prometheus_url: str) -> JsonObject:
    """The ScaledObject of a workload. KEDA creates and owns a HorizontalPodAutoscaler from it."""
    scaling = plan.autoscaling
    assert scaling is not None
    scaled = head(plan, "keda.sh/v1alpha1", "ScaledObject")
    spec: JsonObject = {
        "scaleTargetRef": {"name": plan.name},
        "pollingInterval": KEDA_POLL_S,
        "minReplicaCount": scaling.min,
        "maxReplicaCount": scaling.max,
        # restoreToOriginalReplicaCount is left out: by default replicas stay as they are when the
        # object is deleted. KEDA drops a `false` when it writes the object, and every `up` would
        # set it again.
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": scaling_behavior(scaling)}},
        "triggers": _triggers(plan, scaling, prometheus_url),
        "fallback": {
            "failureThreshold": scaling.settings.fallback.failures,
            "replicas": scaling.fallback_replicas,
            "behavior": scaling.settings.fallback.behavior,
        },
    }
    if scaling.min == 0:
        spec["cooldownPeriod"] = seconds(scaling.settings.cooldown)
    return {**scaled, "spec": spec}


def _triggers(
    plan: DeploymentPlan, scaling: AutoscalingPlan, prometheus_url: str
) -> list[JsonObject]:
    triggers = [
        _trigger(
            scaling.settings.metric,
            scaling_query(plan),
            prometheus_url,
            threshold=scaling.target,
            mean=scaling.metric.mean,
        )
    ]
    if scaling.settings.wake is not None:
        # Its value is 0 or 1, and its target 1: it requests one replica at most.
        triggers.append(
            _trigger(
                "wake", waking_query(scaling.settings.wake), prometheus_url, threshold=1, mean=False
            )
        )
    return triggers


def _trigger(name: str, query: str, url: str, *, threshold: int, mean: bool) -> JsonObject:
    return {
        "type": "prometheus",
        "name": name,
        # Value: replicas times metric over target. AverageValue: metric over target.
        "metricType": "Value" if mean else "AverageValue",
        "metadata": {
            "serverAddress": url,
            "query": query,
            "threshold": str(threshold),
            # By default an empty answer counts as 0: without metrics, replicas would be removed.
            "ignoreNullValues": "false",
        },
    }


def scaling_behavior(scaling: AutoscalingPlan) -> JsonObject:
    """The `behavior` of the HorizontalPodAutoscaler."""
    return {
        "scaleUp": _pace(scaling.settings.scale_up, default_s=0),
        "scaleDown": _pace(scaling.settings.scale_down, default_s=_DOWN_S),
    }


def _pace(pace: Pace, *, default_s: int) -> JsonObject:
    wait = pace.stabilization
    rules: JsonObject = {"stabilizationWindowSeconds": default_s if wait is None else seconds(wait)}
    if pace.replicas is not None:
        rules["policies"] = [
            {"type": "Pods", "value": pace.replicas, "periodSeconds": seconds(pace.per)}
        ]
    return rules
