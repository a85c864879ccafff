"""The chart's values that the rehearsal knows, with their defaults, and the check of a user's.

Source: Project-HAMi/volcano-vgpu-device-plugin,
deployments/helm/volcano-vgpu-device-plugin/values.yaml of 1.12.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.chart_values import merged_over, unfit

VERSION: Final = "1.12.0"
_IMAGE: Final[JsonObject] = {
    "repository": "docker.io/projecthami/volcano-vgpu-device-plugin",
    "tag": f"v{VERSION}",
    "pullPolicy": "IfNotPresent",
}
DEFAULTS: Final[JsonObject] = {
    "namespace": "kube-system",
    "image": dict(_IMAGE),
    "monitor": {"enabled": True, "image": dict(_IMAGE)},
    "deviceConfig": {
        "nvidia": {
            "resourceCountName": "volcano.sh/vgpu-number",
            "resourceMemoryName": "volcano.sh/vgpu-memory",
            "resourceMemoryPercentageName": "volcano.sh/vgpu-memory-percentage",
            "resourceCoreName": "volcano.sh/vgpu-cores",
            "overwriteEnv": False,
            "defaultMemory": 0,
            "defaultCores": 0,
            "defaultGPUNum": 1,
            "deviceSplitCount": 10,
            "deviceMemoryScaling": 1,
            "deviceCoreScaling": 1,
            "gpuMemoryFactor": 1,
        }
    },
    "nodeConfig": {"enabled": True},
    "rbac": {"create": True, "serviceAccountName": "volcano-device-plugin"},
    "daemonset": {"priorityClassName": "system-node-critical"},
    "runtimeClassName": "",
    "hostPaths": {"devicePlugin": "/var/lib/kubelet/device-plugins", "vgpuLib": "/usr/local/vgpu"},
    "nodeSelector": {},
    "affinity": {},
    "tolerations": [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": "volcano.sh/gpu-memory", "operator": "Exists", "effect": "NoSchedule"},
    ],
    "logging": {"klogLevel": "2"},
    "cdi": {"enabled": False},
}


def merged(values: Mapping[str, Any]) -> JsonObject:
    return merged_over(DEFAULTS, values)


def check(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys, wrong types, and keys that are not simulated."""
    problems = unfit(values, DEFAULTS, chart=f"volcano-vgpu-device-plugin {VERSION}")
    if problems:
        return problems
    full = merged(values)
    if full["nodeConfig"]["enabled"]:
        problems.append(("nodeConfig.enabled", "must be false: the plugin has no settings by node"))
    if full["cdi"]["enabled"]:
        problems.append(("cdi.enabled", "must be false: the plugin allocates by variables only"))
    names = full["deviceConfig"]["nvidia"]
    problems += [
        (f"deviceConfig.nvidia.{key}", f"must be {default}: the scheduler knows no other name")
        for key, default in DEFAULTS["deviceConfig"]["nvidia"].items()
        if key.startswith("resource") and names[key] != default
    ]
    return problems
