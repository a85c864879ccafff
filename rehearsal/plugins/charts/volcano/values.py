"""The chart's values that the rehearsal knows, with their defaults, and the check of a user's.

Source: volcano-sh/volcano v1.15.1, installer/helm/chart/volcano/values.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.chart_values import merged_over, unfit

VERSION: Final = "1.15.1"
DEFAULTS: Final[JsonObject] = {
    "basic": {
        "controller_image_name": "volcanosh/vc-controller-manager",
        "scheduler_image_name": "volcanosh/vc-scheduler",
        "scheduler_config_file": "config/volcano-scheduler.conf",
        "image_pull_secret": "",
        "image_pull_policy": "Always",
        "image_tag_version": f"v{VERSION}",
        "controller_image_tag_version": "",
        "scheduler_image_tag_version": "",
        "image_registry": "docker.io",
    },
    "custom": {
        "admission_enable": True,
        "agent_scheduler_enable": False,
        "colocation_enable": False,
        "common_labels": None,
        "controller_affinity": None,
        "controller_enable": True,
        "controller_kube_api_burst": 100,
        "controller_kube_api_qps": 50,
        "controller_log_level": 4,
        "controller_metrics_enable": True,
        "controller_ns": None,
        "controller_replicas": 1,
        "controller_resources": None,
        "controller_tolerations": None,
        "controller_worker_threads": 3,
        "controller_worker_threads_for_gc": 5,
        "controller_worker_threads_for_podgroup": 5,
        "default_affinity": None,
        "default_csc": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "capabilities": {"add": ["DAC_OVERRIDE"], "drop": ["ALL"]},
            "allowPrivilegeEscalation": False,
        },
        "default_ns": None,
        "default_sc": {
            "seccompProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"level": "s0:c123,c456"},
        },
        "default_tolerations": None,
        "leader_elect_enable": False,
        "map_enable": False,
        "metrics_enable": False,
        "scheduler_affinity": None,
        "scheduler_config_override": None,
        "scheduler_enable": True,
        "scheduler_feature_gates": None,
        "scheduler_kube_api_burst": 2000,
        "scheduler_kube_api_qps": 2000,
        "scheduler_log_level": 3,
        "scheduler_metrics_enable": True,
        "scheduler_name": None,
        "scheduler_node_worker_threads": 20,
        "scheduler_ns": None,
        "scheduler_replicas": 1,
        "scheduler_resources": None,
        "scheduler_schedule_period": "1s",
        "scheduler_tolerations": None,
        "sharding_configmap_enable": True,
        "vap_enable": False,
    },
    "service": {"ipFamilyPolicy": "", "ipFamilies": []},
}
_WITHOUT_PROGRAM: Final[Mapping[str, str]] = {
    "admission_enable": "no program for Volcano's webhooks",
    "agent_scheduler_enable": "no second scheduler of Volcano",
    "colocation_enable": "no agent of Volcano on nodes",
    "map_enable": "none of the chart's admission policies",
    "metrics_enable": "none of the chart's Prometheus and Grafana",
    "vap_enable": "none of the chart's admission policies",
}


def merged(values: Mapping[str, Any]) -> JsonObject:
    return merged_over(DEFAULTS, values)


def check(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys, wrong types, and keys that are not simulated."""
    problems = unfit(values, DEFAULTS, chart=f"volcano {VERSION}")
    if problems:
        return problems
    custom = merged(values)["custom"]
    return [
        (f"custom.{key}", f"must be false: the rehearsal has {reason}")
        for key, reason in _WITHOUT_PROGRAM.items()
        if custom[key]
    ]
