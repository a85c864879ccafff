"""The chart's values that the rehearsal knows, with their defaults, and the check of a user's.

Source: Project-HAMi/HAMi v2.10.0, charts/hami/values.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.chart_values import merged_over, unfit

VERSION: Final = "2.10.0"
_OWN_IMAGE: Final[JsonObject] = {
    "registry": "docker.io",
    "repository": "projecthami/hami",
    "tag": "",
    "pullPolicy": "IfNotPresent",
}
DEFAULTS: Final[JsonObject] = {
    "global": {
        "imageRegistry": "",
        "imagePullSecrets": [],
        "imageTag": f"v{VERSION}",
        "gpuHookPath": "/usr/local",
    },
    "schedulerName": "hami-scheduler",
    "scheduler": {
        "admissionWebhook": {"enabled": True, "failurePolicy": "Ignore"},
        "certManager": {"enabled": False},
        "defaultSchedulerPolicy": {
            "nodeSchedulerPolicy": "binpack",
            "gpuSchedulerPolicy": "spread",
        },
        "extender": {"image": dict(_OWN_IMAGE), "resources": {}},
        "kubeScheduler": {
            "enabled": True,
            "image": {
                "registry": "registry.cn-hangzhou.aliyuncs.com",
                "repository": "google_containers/kube-scheduler",
                "tag": "",
                "pullPolicy": "IfNotPresent",
            },
            "resources": {},
        },
        "nodeLabelSelector": {},
        "nodeSelector": {},
        "replicas": 1,
        "service": {"type": "ClusterIP", "httpPort": 443, "httpTargetPort": 9443},
        "tolerations": [],
    },
    "devicePlugin": {
        "enabled": True,
        "deviceCoreScaling": 1,
        "deviceMemoryScaling": 1,
        "deviceSplitCount": 10,
        "gpuOperatorToolkitReady": {"enabled": False, "hostPath": "/run/nvidia/validations"},
        "image": dict(_OWN_IMAGE),
        "monitor": {"image": dict(_OWN_IMAGE)},
        "nodeConfiguration": {"config": "", "externalConfigName": ""},
        "nvidiaNodeSelector": {"gpu": "on"},
        "pluginPath": "/var/lib/kubelet/device-plugins",
        "runtimeClassName": "",
        "service": {"type": "NodePort"},
        "tolerations": [],
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
    },
}
_FREE: Final = ("devicePlugin.nvidiaNodeSelector", "devicePlugin.updateStrategy")


def merged(values: Mapping[str, Any]) -> JsonObject:
    return merged_over(DEFAULTS, values)


def check(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys, wrong types, and keys that are not simulated."""
    problems = unfit(values, DEFAULTS, chart=f"hami {VERSION}", free=_FREE)
    if problems:
        return problems
    scheduler = merged(values)["scheduler"]
    if not scheduler["kubeScheduler"]["enabled"]:
        problems.append(("scheduler.kubeScheduler.enabled", "must be true: nobody else schedules"))
    if scheduler["certManager"]["enabled"]:
        problems.append(
            ("scheduler.certManager.enabled", "must be false: the rehearsal has no cert-manager")
        )
    if scheduler["nodeLabelSelector"]:
        problems.append(
            ("scheduler.nodeLabelSelector", "must be empty: the extender looks at all nodes")
        )
    return problems
