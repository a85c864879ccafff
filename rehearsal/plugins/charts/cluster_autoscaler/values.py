"""The chart's values: every key with its default, and the check of a user's values against them.

Source: kubernetes/autoscaler, charts/cluster-autoscaler: README.md of 9.59.0. Only AWS is
simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.chart_values import merged_over, unfit

VERSION: Final = "9.59.0"
APP_VERSION: Final = "1.35.0"

DEFAULTS: Final[JsonObject] = {
    "additionalLabels": {},
    "affinity": {},
    "autoDiscovery": {
        "clusterName": None,
        "labels": [],
        "namespace": None,
        "roles": ["worker"],
        "tags": [
            "k8s.io/cluster-autoscaler/enabled",
            "k8s.io/cluster-autoscaler/{{ .Values.autoDiscovery.clusterName }}",
        ],
    },
    "autoscalingGroups": [],
    "awsAccessKeyID": "",
    "awsRegion": "",
    "awsSecretAccessKey": "",
    "cloudProvider": "aws",
    "containerSecurityContext": {},
    "customArgs": [],
    "deployment": {"annotations": {}},
    "dnsConfig": {},
    "dnsPolicy": "ClusterFirst",
    "envFromConfigMap": "",
    "envFromSecret": "",
    "expanderPriorities": {},
    "extraArgs": {"logtostderr": True, "stderrthreshold": "info", "v": 4},
    "extraEnv": {},
    "extraEnvConfigMaps": {},
    "extraEnvSecrets": {},
    "extraObjects": [],
    "extraVolumeMounts": [],
    "extraVolumeSecrets": {},
    "extraVolumes": [],
    "fullnameOverride": "",
    "hostNetwork": False,
    "image": {
        "pullPolicy": "IfNotPresent",
        "pullSecrets": [],
        "repository": "registry.k8s.io/autoscaling/cluster-autoscaler",
        "tag": f"v{APP_VERSION}",
    },
    "initContainers": [],
    "kubeTargetVersionOverride": "",
    "nameOverride": "",
    "nodeSelector": {},
    "podAnnotations": {},
    "podDisruptionBudget": {"annotations": {}, "maxUnavailable": 1, "selector": {}},
    "podLabels": {},
    "priorityClassName": "system-cluster-critical",
    "priorityConfigMapAnnotations": {},
    "prometheusRule": {"enabled": False},
    "rbac": {
        "additionalRules": [],
        "annotations": {},
        "clusterScoped": True,
        "create": True,
        "pspEnabled": False,
        "serviceAccount": {
            "annotations": {},
            "automountServiceAccountToken": True,
            "create": True,
            "name": "",
        },
    },
    "replicaCount": 1,
    "resources": {},
    "revisionHistoryLimit": 10,
    "securityContext": {},
    "service": {
        "annotations": {},
        "create": True,
        "labels": {},
        "portName": "http",
        "servicePort": 8085,
        "type": "ClusterIP",
    },
    "serviceMonitor": {"enabled": False},
    "tolerations": [],
    "topologySpreadConstraints": [],
    "updateStrategy": {},
    "vpa": {"enabled": False},
}
_NOT_RENDERED: Final = ("extraObjects", "initContainers", "extraVolumes", "extraVolumeMounts")
_FLAGS: Final = frozenset(
    {
        "aws-use-static-instance-list", "balance-similar-node-groups", "balancing-ignore-label",
        "balancing-label", "cordon-node-before-terminating", "daemonset-eviction-for-empty-nodes",
        "expander", "expendable-pods-priority-cutoff", "ignore-daemonsets-utilization",
        "ignore-taint", "leader-elect", "logtostderr", "max-empty-bulk-delete",
        "max-graceful-termination-sec", "max-node-provision-time", "max-node-startup-time",
        "max-nodes-total", "new-pod-scale-up-delay", "node-deletion-delay-timeout",
        "ok-total-unready-count", "scale-down-delay-after-add", "scale-down-delay-after-delete",
        "scale-down-delay-after-failure", "scale-down-enabled",
        "scale-down-gpu-utilization-threshold",
        "scale-down-unneeded-time", "scale-down-unready-enabled", "scale-down-unready-time",
        "scale-down-utilization-threshold", "scan-interval",
        "skip-nodes-with-custom-controller-pods",
        "skip-nodes-with-local-storage", "skip-nodes-with-system-pods", "startup-taint",
        "status-taint", "stderrthreshold", "v", "write-status-configmap",
    }
)  # fmt: skip
"""Of those that cluster-autoscaler knows: with any other it ends. Source: kubernetes/autoscaler,
cluster-autoscaler/FAQ.md, "What are the parameters to CA?".
"""


def merged(values: Mapping[str, Any]) -> JsonObject:
    return merged_over(DEFAULTS, values)


def check(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys, wrong types, and what is not simulated."""
    chart = f"cluster-autoscaler {VERSION}"
    problems = unfit(values, DEFAULTS, chart=chart, free=("extraArgs",))
    if problems:
        return problems
    full = merged(values)
    if full["cloudProvider"] != "aws":
        problems.append(("cloudProvider", "the rehearsal simulates this chart for aws only"))
    problems += [
        (f"extraArgs.{name}", "is not a flag of cluster-autoscaler that the rehearsal knows")
        for name in full["extraArgs"]
        if name.partition("_")[0] not in _FLAGS
    ]
    problems += [(name, "the rehearsal does not render it") for name in _NOT_RENDERED if full[name]]
    problems += [
        (f"{name}.enabled", "needs CRDs that no rehearsal has")
        for name in ("serviceMonitor", "prometheusRule", "vpa")
        if full[name]["enabled"]
    ]
    return problems
