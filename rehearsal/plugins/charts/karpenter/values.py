"""The chart's values: every key with its default, and the check of a user's values against them.

Source: aws/karpenter-provider-aws v1.15.1, charts/karpenter/values.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.chart_values import merged_over, unfit

VERSION: Final = "1.15.1"

DEFAULTS: Final[JsonObject] = {
    "nameOverride": "",
    "fullnameOverride": "",
    "additionalLabels": {},
    "additionalAnnotations": {},
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [],
    "service": {"annotations": {}},
    "serviceAccount": {"create": True, "name": "", "annotations": {}},
    "additionalClusterRoleRules": [],
    "serviceMonitor": {"enabled": False},
    "replicas": 2,
    "revisionHistoryLimit": 10,
    "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
    "podLabels": {},
    "podAnnotations": {},
    "podDisruptionBudget": {"name": "karpenter", "maxUnavailable": 1},
    "podSecurityContext": {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
    "priorityClassName": "system-cluster-critical",
    "terminationGracePeriodSeconds": None,
    "hostNetwork": False,
    "schedulerName": "default-scheduler",
    "dnsPolicy": "ClusterFirst",
    "dnsConfig": {},
    "initContainers": {},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
                        ]
                    }
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname"}
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
        }
    ],
    "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
    "extraVolumes": [],
    "controller": {
        "containerName": "controller",
        "image": {
            "repository": "public.ecr.aws/karpenter/controller",
            "tag": VERSION,
            "digest": "",
        },
        "env": [],
        "envFrom": [],
        "securityContext": {},
        "resources": {},
        "extraVolumeMounts": [],
        "sidecarContainer": [],
        "sidecarVolumeMounts": [],
        "metrics": {"port": 8080},
        "healthProbe": {"port": 8081},
    },
    "logLevel": "info",
    "logOutputPaths": ["stdout"],
    "logErrorOutputPaths": ["stderr"],
    "settings": {
        "batchMaxDuration": "10s",
        "batchIdleDuration": "1s",
        "preferencePolicy": "Respect",
        "minValuesPolicy": "Strict",
        "clusterCABundle": "",
        "clusterName": "",
        "clusterEndpoint": "",
        "isolatedVPC": False,
        "eksControlPlane": False,
        "vmMemoryOverheadPercent": 0.075,
        "interruptionQueue": "",
        "enableZonalShift": False,
        "reservedENIs": "0",
        "enableDRA": False,
        "ignoreDRARequests": None,
        "legacyNodeRepair": False,
        "disableClusterStateObservability": False,
        "disableDryRun": False,
        "amiRefreshInterval": "1m",
        "subnetRefreshInterval": "1m",
        "securityGroupRefreshInterval": "1m",
        "featureGates": {
            "nodeRepair": False,
            "nodeOverlay": False,
            "reservedCapacity": True,
            "spotToSpotConsolidation": False,
            "staticCapacity": False,
            "capacityBuffer": False,
            "terminateFirstDrift": False,
            "terminateFirstRepair": False,
            "podDeletionCostManagement": False,
        },
        "awsFeatureGates": {
            "nodeClassCEL": False,
            "draNVIDIAGPU": None,
            "draEFA": None,
            "rebootForRepair": False,
        },
    },
}
_FREE: Final = ("affinity", "nodeSelector", "podSecurityContext", "strategy")
_NOT_RENDERED: Final = ("initContainers", "extraVolumes")


def merged(values: Mapping[str, Any]) -> JsonObject:
    return merged_over(DEFAULTS, values)


def check(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys, wrong types, and what is not simulated."""
    problems = unfit(values, DEFAULTS, chart=f"karpenter {VERSION}", free=_FREE)
    if problems:
        return problems
    full = merged(values)
    if not full["settings"]["clusterName"]:
        problems.append(
            ("settings.clusterName", "the chart cannot be installed without the cluster's name")
        )
    problems += [(name, "the rehearsal does not render it") for name in _NOT_RENDERED if full[name]]
    if full["serviceMonitor"]["enabled"]:
        problems.append(("serviceMonitor.enabled", "the rehearsal does not render it"))
    return problems


def check_definitions(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Of the chart with Karpenter's kinds."""
    return unfit(values, {"additionalAnnotations": {}}, chart=f"karpenter-crd {VERSION}")
