"""Values of the chart kube-prometheus-stack: Prometheus with its operator, and its rules.

It is small and has few rights: one Prometheus, its operator and kube-state-metrics, which sees the
few kinds that rules and dashboards query. There is no node exporter: its pods would be on GPU
nodes. There are no webhooks: their jobs may patch webhooks and write Secrets, and the rules are
tested before. The control plane and the kubelets are not scraped: managed clusters hide the former,
and nothing here uses metrics of the latter. All keys are in the values.yaml of the chart, or of its
part kube-state-metrics: Helm ignores unknown keys.

Source: prometheus-community/helm-charts, charts/kube-prometheus-stack.
"""

from __future__ import annotations

from typing import Final

from slicewright.apis.names import (
    DEPLOY_LABEL_PREFIX,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    POOL_LABEL,
)
from slicewright.infra.manifests.helm_charts import ChartAddress, chart_address
from slicewright.infra.manifests.placement import placement
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import FleetPlan, MonitoringPlan
from slicewright.infra.stack_file import PrometheusStack

_CHART: Final = "kube-prometheus-stack"
NODE_LABELS: Final = (
    POOL_LABEL,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    f"{DEPLOY_LABEL_PREFIX}device-plugin",
    "nvidia.com/gpu-driver-upgrade-state",
)
"""Labels of nodes that become labels of kube_node_labels."""
_COLLECTORS: Final = (
    "daemonsets",
    "deployments",
    "horizontalpodautoscalers",
    "nodes",
    "pods",
    "statefulsets",
)
"""Kinds that kube-state-metrics may list, and no others."""
_NOT_SCRAPED: Final = (
    "kubeApiServer",
    "kubelet",
    "kubeControllerManager",
    "coreDns",
    "kubeDns",
    "kubeEtcd",
    "kubeScheduler",
    "kubeProxy",
)
_EVALUATION_S: Final = 30
_TIMEOUT_S: Final = 10


def monitoring_chart(stack: PrometheusStack) -> ChartAddress:
    return chart_address(_CHART, stack.repository, stack.chart_path)


def monitoring_values(fleet: FleetPlan) -> JsonObject:
    """The values for a fleet whose stack installs Prometheus."""
    plan = fleet.monitoring
    assert plan is not None
    assert isinstance(plan.settings, PrometheusStack)
    stack, placed = plan.settings, placement(fleet)
    values: JsonObject = {
        "defaultRules": {"create": False},
        **{part: {"enabled": False} for part in _NOT_SCRAPED},
        "nodeExporter": {"enabled": False},
        "prometheusOperator": _operator(stack) | placed,
        "prometheus": {"prometheusSpec": _prometheus(plan, stack) | placed},
        "kube-state-metrics": {
            "collectors": list(_COLLECTORS),
            "metricLabelsAllowlist": [f"nodes=[{','.join(NODE_LABELS)}]"],
            "resources": _resources("20m", "64Mi", "256Mi"),
            **placed,
        },
        # Grafana's image is licensed under the AGPL.
        "grafana": {"enabled": False},
        "alertmanager": _alertmanager(stack, placed),
    }
    if stack.registry is not None:
        values["global"] = {"imageRegistry": stack.registry}
    if stack.image_pull_secrets:
        secrets = [{"name": name} for name in stack.image_pull_secrets]
        values.setdefault("global", {})["imagePullSecrets"] = secrets
    return values


def _operator(stack: PrometheusStack) -> JsonObject:
    return {
        "admissionWebhooks": {"enabled": False},
        # The certificate serves the webhooks only.
        "tls": {"enabled": False},
        "kubeletService": {"enabled": False},
        # The operator has rights in all namespaces. A Prometheus elsewhere must not get them.
        "prometheusInstanceNamespaces": [stack.namespace],
        "alertmanagerInstanceNamespaces": [stack.namespace],
        "alertmanagerConfigNamespaces": [stack.namespace],
        "thanosRulerInstanceNamespaces": [stack.namespace],
        "resources": _resources("50m", "96Mi", "256Mi"),
    }


def _prometheus(plan: MonitoringPlan, stack: PrometheusStack) -> JsonObject:
    spec: JsonObject = {
        "replicas": 1,
        "scrapeInterval": f"{plan.interval_s}s",
        # Prometheus refuses a timeout that is longer than the interval.
        "scrapeTimeout": f"{min(_TIMEOUT_S, plan.interval_s)}s",
        "evaluationInterval": f"{min(_EVALUATION_S, plan.interval_s)}s",
        "retention": f"{stack.retention_days}d",
        "resources": _resources("100m", "512Mi", "2Gi"),
        # A user who may make a monitor cannot send the pod's token to a target of their own.
        "arbitraryFSAccessThroughSMs": {"deny": True},
    }
    if stack.storage is not None:
        claim: JsonObject = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": stack.storage.size}},
        }
        if stack.storage.storage_class is not None:
            claim["storageClassName"] = stack.storage.storage_class
        spec["storageSpec"] = {"volumeClaimTemplate": {"spec": claim}}
        # Without a limit, Prometheus would fill the volume.
        spec["retentionSize"] = f"{_retained_mib(stack.storage.size)}MiB"
    return spec


def _retained_mib(size: str) -> int:
    """85 % of a volume: Prometheus' own advice, for the write-ahead log and compaction."""
    mib = int(size[:-2]) * (1024 if size.endswith("Gi") else 1)
    return mib * 85 // 100


def _alertmanager(stack: PrometheusStack, placed: JsonObject) -> JsonObject:
    if stack.alertmanager is None:
        return {"enabled": False}
    return {
        "enabled": True,
        "alertmanagerSpec": {
            "useExistingSecret": True,
            "configSecret": stack.alertmanager.config_secret,
            "resources": _resources("20m", "64Mi", "128Mi"),
            **placed,
        },
    }


def _resources(cpu: str, memory: str, memory_limit: str) -> JsonObject:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}
