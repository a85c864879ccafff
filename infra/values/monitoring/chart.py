"""Values of the chart kube-prometheus-stack: Prometheus with its operator, and its rules.

It is small and has few rights: one Prometheus, its operator and kube-state-metrics, which sees the
few kinds that rules and dashboards ask about. There is no node exporter: its pods would be on GPU
nodes. There are no webhooks: their jobs may patch webhooks and write Secrets, and the rules are
tested before. The control plane and the kubelets are not scraped: managed clusters hide the former,
and nothing here asks for the latter. All keys are in the values.yaml of the chart, or of its part
kube-state-metrics: Helm ignores unknown ones.

Source: prometheus-community/helm-charts, charts/kube-prometheus-stack.
"""

from __future__ import annotations

from typing import Final

from apis.names import DEPLOY_LABEL_PREFIX, MIG_CONFIG_LABEL, MIG_STATE_LABEL, POOL_LABEL
from infra.plan import FleetPlan, MonitoringPlan
from infra.spec import PrometheusStack
from infra.values.helm_charts import ChartAddress, chart_address
from infra.values.placement import placement
from infra.values.text import JsonObject

_CHART: Final = "kube-prometheus-stack"
NODE_LABELS: Final = (
    POOL_LABEL,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    f"{DEPLOY_LABEL_PREFIX}device-plugin",
    "nvidia.com/gpu-driver-upgrade-state",
)
"""Which become labels of kube_node_labels."""
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


def monitoring_chart(asked: PrometheusStack) -> ChartAddress:
    return chart_address(_CHART, asked.repository, asked.chart_path)


def monitoring_values(fleet: FleetPlan) -> JsonObject:
    """The values for a fleet whose stack installs Prometheus."""
    plan = fleet.monitoring
    assert plan is not None
    assert isinstance(plan.settings, PrometheusStack)
    asked, placed = plan.settings, placement(fleet)
    values: JsonObject = {
        "defaultRules": {"create": False},
        **{part: {"enabled": False} for part in _NOT_SCRAPED},
        "nodeExporter": {"enabled": False},
        "prometheusOperator": {
            "admissionWebhooks": {"enabled": False},
            # Its certificate is the webhooks'.
            "tls": {"enabled": False},
            "kubeletService": {"enabled": False},
            # It has rights in all namespaces, which a Prometheus elsewhere must not get.
            "prometheusInstanceNamespaces": [asked.namespace],
            "alertmanagerInstanceNamespaces": [asked.namespace],
            "alertmanagerConfigNamespaces": [asked.namespace],
            "thanosRulerInstanceNamespaces": [asked.namespace],
            "resources": _resources("50m", "96Mi", "256Mi"),
            **placed,
        },
        "prometheus": {"prometheusSpec": _prometheus(plan, asked) | placed},
        "kube-state-metrics": {
            "collectors": list(_COLLECTORS),
            "metricLabelsAllowlist": [f"nodes=[{','.join(NODE_LABELS)}]"],
            "resources": _resources("20m", "64Mi", "256Mi"),
            **placed,
        },
        # Its image is under the AGPL.
        "grafana": {"enabled": False},
        "alertmanager": _alertmanager(asked, placed),
    }
    if asked.registry is not None:
        values["global"] = {"imageRegistry": asked.registry}
    if asked.image_pull_secrets:
        pulled = [{"name": name} for name in asked.image_pull_secrets]
        values.setdefault("global", {})["imagePullSecrets"] = pulled
    return values


def _prometheus(plan: MonitoringPlan, asked: PrometheusStack) -> JsonObject:
    spec: JsonObject = {
        "replicas": 1,
        "scrapeInterval": f"{plan.interval_s}s",
        # Prometheus refuses a timeout that is longer than the interval.
        "scrapeTimeout": f"{min(_TIMEOUT_S, plan.interval_s)}s",
        "evaluationInterval": f"{min(_EVALUATION_S, plan.interval_s)}s",
        "retention": f"{asked.retention_days}d",
        "resources": _resources("100m", "512Mi", "2Gi"),
        # A user who may make a monitor cannot send the pod's token to a target of their own.
        "arbitraryFSAccessThroughSMs": {"deny": True},
    }
    if asked.storage is not None:
        claim: JsonObject = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": asked.storage.size}},
        }
        if asked.storage.storage_class is not None:
            claim["storageClassName"] = asked.storage.storage_class
        spec["storageSpec"] = {"volumeClaimTemplate": {"spec": claim}}
        # Else it would not know when the volume is full.
        spec["retentionSize"] = f"{_kept_mib(asked.storage.size)}MiB"
    return spec


def _kept_mib(size: str) -> int:
    """85 % of a volume: Prometheus' own advice, for the write-ahead log and compaction."""
    mib = int(size[:-2]) * (1024 if size.endswith("Gi") else 1)
    return mib * 85 // 100


def _alertmanager(asked: PrometheusStack, placed: JsonObject) -> JsonObject:
    if asked.alertmanager is None:
        return {"enabled": False}
    return {
        "enabled": True,
        "alertmanagerSpec": {
            "useExistingSecret": True,
            "configSecret": asked.alertmanager.config_secret,
            "resources": _resources("20m", "64Mi", "128Mi"),
            **placed,
        },
    }


def _resources(cpu: str, memory: str, most: str) -> JsonObject:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": most}}
