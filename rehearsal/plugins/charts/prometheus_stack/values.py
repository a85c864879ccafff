"""The chart's values that the rehearsal knows, with their defaults, and the check of a user's.

Source: prometheus-community/helm-charts, charts/kube-prometheus-stack/values.yaml, and that of its
part kube-state-metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.chart_values import merged_over, unfit

VERSION: Final = "88.5.3"
APP_VERSION: Final = "v0.85.0"
"""The newest operator whose Go module can be had, and what runs in the rehearsal. The chart's own
is newer.
"""
PROMETHEUS: Final = "v3.13.5"
_UNSET: Final = None
_PLACED: Final[JsonObject] = {
    "nodeSelector": {},
    "tolerations": [],
    "affinity": {},
    "resources": {},
}

DEFAULTS: Final[JsonObject] = {
    "nameOverride": "",
    "fullnameOverride": "",
    "namespaceOverride": "",
    "commonLabels": {},
    "crds": {"enabled": True},
    "global": {"imageRegistry": "", "imagePullSecrets": [], "rbac": {"create": True}},
    "defaultRules": {"create": True},
    "kubeApiServer": {"enabled": True},
    "kubelet": {"enabled": True},
    "kubeControllerManager": {"enabled": True},
    "coreDns": {"enabled": True},
    "kubeDns": {"enabled": False},
    "kubeEtcd": {"enabled": True},
    "kubeScheduler": {"enabled": True},
    "kubeProxy": {"enabled": True},
    "kubeStateMetrics": {"enabled": True},
    "nodeExporter": {"enabled": True},
    "kube-state-metrics": {
        **_PLACED,
        "collectors": _UNSET,
        "metricLabelsAllowlist": [],
        "prometheus": {"monitor": {"enabled": True}},
    },
    "grafana": {"enabled": True},
    "alertmanager": {
        "enabled": True,
        "alertmanagerSpec": {
            **_PLACED,
            "replicas": 1,
            "useExistingSecret": False,
            "configSecret": "",
        },
    },
    "prometheusOperator": {
        **_PLACED,
        "enabled": True,
        "admissionWebhooks": {"enabled": True},
        "tls": {"enabled": True},
        "kubeletService": {"enabled": True},
        "serviceMonitor": {"selfMonitor": True},
        "namespaces": {},
        "prometheusInstanceNamespaces": [],
        "alertmanagerInstanceNamespaces": [],
        "alertmanagerConfigNamespaces": [],
        "thanosRulerInstanceNamespaces": [],
        "securityContext": {
            "fsGroup": 65534,
            "runAsGroup": 65534,
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    },
    "prometheus": {
        "enabled": True,
        "serviceMonitor": {"selfMonitor": True},
        "prometheusSpec": {
            **_PLACED,
            "replicas": 1,
            "shards": 1,
            "scrapeInterval": "",
            "scrapeTimeout": "",
            "evaluationInterval": "",
            "retention": "10d",
            "retentionSize": "",
            "externalLabels": {},
            "logLevel": "info",
            "walCompression": True,
            "enableAdminAPI": False,
            "arbitraryFSAccessThroughSMs": {},
            "storageSpec": {},
            "podMonitorSelectorNilUsesHelmValues": True,
            "podMonitorSelector": {},
            "podMonitorNamespaceSelector": {},
            "serviceMonitorSelectorNilUsesHelmValues": True,
            "serviceMonitorSelector": {},
            "serviceMonitorNamespaceSelector": {},
            "ruleSelectorNilUsesHelmValues": True,
            "ruleSelector": {},
            "ruleNamespaceSelector": {},
            "securityContext": {
                "runAsGroup": 2000,
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "fsGroup": 2000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    },
}
_NOT_SIMULATED: Final[Mapping[str, str]] = {
    "prometheusOperator.admissionWebhooks.enabled": "its certificate comes from Jobs that the "
    "rehearsal has no program for",
    "prometheusOperator.tls.enabled": "the certificate is the webhooks', which the rehearsal does "
    "not have",
}
"""On by default, and to be switched off."""
_SCRAPES: Final = (
    "kubeApiServer",
    "kubelet",
    "kubeControllerManager",
    "coreDns",
    "kubeDns",
    "kubeEtcd",
    "kubeScheduler",
    "kubeProxy",
    "nodeExporter",
)


def merged(values: Mapping[str, Any]) -> JsonObject:
    return merged_over(DEFAULTS, values)


def check(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys, wrong types, and what is not simulated."""
    problems = unfit(values, DEFAULTS, chart=f"kube-prometheus-stack {VERSION}")
    if problems:
        return problems
    full = merged(values)
    for path, why in _NOT_SIMULATED.items():
        if _value_at(full, path):
            problems.append((path, f"must be false in a rehearsal: {why}"))
    problems += [
        (f"{name}.enabled", "must be false: the rehearsal does not scrape it")
        for name in _SCRAPES
        if full[name]["enabled"]
    ]
    if full["grafana"]["enabled"]:
        problems.append(("grafana.enabled", "must be false: Grafana is under the AGPL"))
    if full["defaultRules"]["create"]:
        problems.append(("defaultRules.create", "must be false: the rehearsal has not these rules"))
    return problems


def _value_at(full: JsonObject, path: str) -> Any:
    value: Any = full
    for key in path.split("."):
        value = value[key]
    return value
