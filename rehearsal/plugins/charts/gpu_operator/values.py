"""The chart's values: every key with its default, and the check of a user's values against them.

The chart has no schema, so the real Helm ignores unknown keys; the rehearsal reports them. Source:
NVIDIA/gpu-operator
`deployments/gpu-operator/values.yaml`, tree of mid-2026; versions as released in v26.7.0 (driver,
toolkit, plugin, GFD, mig-manager, exporter, DCGM, driver manager), the others as in that tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.chart_values import merged_over, unfit

VERSION: Final = "v26.7.0"

_UNSET: Final = None
"""The default of a key that the chart leaves unset."""
_CONTROL_PLANE: Final = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Equal",
    "value": "",
    "effect": "NoSchedule",
}
_GPU: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def _image(repository: str, image: str, version: str | None, **more: Any) -> JsonObject:
    """An operand's section: its image, and the keys that all operands have."""
    return {
        "repository": repository,
        "image": image,
        "version": version,
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": [],
        "env": [],
        "args": [],
        "resources": {},
        "hostNetwork": False,
        **more,
    }


_DRIVER_MANAGER: Final = {
    "repository": "nvcr.io/nvidia/cloud-native",
    "image": "k8s-driver-manager",
    "version": "v0.12.0",
    "imagePullPolicy": "IfNotPresent",
    "env": [],
}
_SCHEDULING: Final = {
    "tolerations": [],
    "nodeSelector": {},
    "affinity": {},
    "annotations": {},
    "resources": {},
    "priorityClassName": "",
    "serviceAccount": {"create": _UNSET, "name": _UNSET, "annotations": {}},
    "config": {},
    "extraArgs": [],
    "extraEnvs": [],
    "enable": True,
}

DEFAULTS: Final[JsonObject] = {
    "platform": {"openshift": False},
    "nfd": {"enabled": True, "nodefeaturerules": False},
    "psa": {"enabled": False},
    "cdi": {"enabled": True, "nriPluginEnabled": False, "default": _UNSET},
    "sandboxWorkloads": {"enabled": False, "defaultWorkload": "container", "mode": "kubevirt"},
    "hostPaths": {
        "rootFS": "/",
        "driverInstallDir": "/run/nvidia/driver",
        "kubeletRootDir": _UNSET,
    },
    "daemonsets": {
        "labels": {},
        "annotations": {},
        "priorityClassName": "system-node-critical",
        "tolerations": [_GPU],
        "updateStrategy": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "1"},
    },
    "validator": _image(
        "nvcr.io/nvidia",
        "gpu-operator",
        _UNSET,
        plugin={"env": []},
        driver=_UNSET,
        cuda=_UNSET,
        toolkit=_UNSET,
    ),
    "operator": {
        "repository": "nvcr.io/nvidia",
        "image": "gpu-operator",
        "version": _UNSET,
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": [],
        "env": [],
        "priorityClassName": "system-node-critical",
        "runtimeClass": "nvidia",
        "use_ocp_driver_toolkit": False,
        "cleanupCRD": False,
        "upgradeCRD": True,
        "nodeSelector": {},
        "tolerations": [_CONTROL_PLANE],
        "annotations": {},
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {
                            "matchExpressions": [
                                {"key": _CONTROL_PLANE["key"], "operator": "In", "values": [""]}
                            ]
                        },
                    }
                ]
            }
        },
        "logging": {"timeEncoding": "epoch", "level": "info", "develMode": False},
        "resources": {
            "limits": {"cpu": "500m", "memory": "350Mi"},
            "requests": {"cpu": "200m", "memory": "100Mi"},
        },
        "metrics": _UNSET,
    },
    "mig": {"strategy": "single"},
    "driver": _image(
        "nvcr.io/nvidia",
        "driver",
        "595.91.07",
        enabled=True,
        nvidiaDriverCRD={
            "enabled": False,
            "deployDefaultCR": True,
            "driverType": "gpu",
            "nodeSelector": {},
        },
        kernelModuleType="auto",
        useOpenKernelModules=_UNSET,
        usePrecompiled=False,
        startupProbe={
            "initialDelaySeconds": 60,
            "periodSeconds": 10,
            "timeoutSeconds": 60,
            "failureThreshold": 120,
        },
        livenessProbe=_UNSET,
        readinessProbe=_UNSET,
        rdma={"enabled": False, "useHostMofed": False},
        upgradePolicy={
            "autoUpgrade": True,
            "maxParallelUpgrades": 1,
            "maxUnavailable": "25%",
            "waitForCompletion": {"timeoutSeconds": 0, "podSelector": ""},
            "gpuPodDeletion": {"force": False, "timeoutSeconds": 300, "deleteEmptyDir": False},
            "drain": {
                "enable": False,
                "force": False,
                "podSelector": "",
                "timeoutSeconds": 300,
                "deleteEmptyDir": False,
            },
        },
        manager=_DRIVER_MANAGER,
        repoConfig={"configMapName": ""},
        certConfig={"name": ""},
        licensingConfig={"secretName": "", "nlsEnabled": True, "configMapName": _UNSET},
        virtualTopology={"config": ""},
        kernelModuleConfig={"name": ""},
        secretEnv="",
    ),
    "toolkit": _image(
        "nvcr.io/nvidia/k8s",
        "container-toolkit",
        "v1.20.0",
        enabled=True,
        installDir="/usr/local/nvidia",
    ),
    "devicePlugin": _image(
        "nvcr.io/nvidia",
        "k8s-device-plugin",
        "v0.20.0",
        enabled=True,
        config={"create": False, "name": "", "default": "", "data": {}},
        mps={"root": "/run/nvidia/mps"},
    ),
    "dcgm": _image("nvcr.io/nvidia/cloud-native", "dcgm", "4.6.0-1-ubuntu24.04", enabled=False),
    "dcgmExporter": _image(
        "nvcr.io/nvidia/k8s",
        "dcgm-exporter",
        "4.6.0-4.8.3-distroless",
        enabled=True,
        annotations={},
        hostPID=False,
        hpcJobMapping=_UNSET,
        enablePodLabels=False,
        enablePodUID=False,
        podLabelAllowlistRegex=[],
        service={"internalTrafficPolicy": "Cluster", "type": _UNSET},
        serviceMonitor={
            "enabled": True,
            "interval": "15s",
            "scrapeTimeout": "10s",
            "honorLabels": False,
            "additionalLabels": {},
            "relabelings": [],
        },
        config={"name": _UNSET, "create": False, "data": _UNSET},
    ),
    "gfd": _image("nvcr.io/nvidia", "k8s-device-plugin", "v0.20.0", enabled=True),
    "migManager": _image(
        "nvcr.io/nvidia/cloud-native",
        "k8s-mig-manager",
        "v0.15.0",
        enabled=True,
        config={"default": "all-disabled", "create": False, "name": "", "data": {}},
        gpuClientsConfig={"name": ""},
    ),
    "nodeStatusExporter": _image("nvcr.io/nvidia", "gpu-operator", _UNSET, enabled=False),
    "gds": _image("nvcr.io/nvidia/cloud-native", "nvidia-fs", "2.28.2", enabled=False),
    "gdrcopy": _image("nvcr.io/nvidia/cloud-native", "gdrdrv", "v2.6", enabled=False),
    "vgpuManager": _image(
        "",
        "vgpu-manager",
        "",
        enabled=False,
        driverManager=_DRIVER_MANAGER,
        kernelModuleConfig={"name": ""},
    ),
    "vgpuDeviceManager": _image(
        "nvcr.io/nvidia/cloud-native",
        "vgpu-device-manager",
        "v0.4.2",
        enabled=True,
        config={"name": "", "default": "default"},
    ),
    "vfioManager": _image(
        "nvcr.io/nvidia/cloud-native",
        "k8s-driver-manager",
        "v0.12.0",
        enabled=True,
        driverManager=_DRIVER_MANAGER,
    ),
    "kataManager": {
        "enabled": False,
        "config": {},
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": [],
        "env": [],
        "resources": {},
        "hostNetwork": False,
    },
    "sandboxDevicePlugin": _image(
        "nvcr.io/nvidia", "kubevirt-gpu-device-plugin", "v1.5.0", enabled=True
    ),
    "kataSandboxDevicePlugin": _image(
        "nvcr.io/nvidia/cloud-native", "nvidia-sandbox-device-plugin", "v0.0.3", enabled=True
    ),
    "ccManager": _image(
        "nvcr.io/nvidia/cloud-native", "k8s-cc-manager", "v0.4.2", enabled=True, defaultMode="on"
    ),
    "clusterPolicy": {"deployCR": True},
    "gpuCluster": {"deployCR": False},
    "draDriver": {
        **_image("registry.k8s.io/dra-driver-nvidia", "dra-driver-nvidia-gpu", "v0.5.0"),
        "featureGates": {},
        "gpus": {"kubeletPlugin": {}},
        "computeDomains": {"enabled": True, "controller": {}, "kubeletPlugin": {}},
    },
    "extraObjects": [],
    "node-feature-discovery": {
        "priorityClassName": "system-node-critical",
        "featureGates": {},
        "image": {"repository": _UNSET, "tag": _UNSET, "pullPolicy": _UNSET},
        "imagePullSecrets": [],
        "nameOverride": "",
        "fullnameOverride": "",
        "namespaceOverride": "",
        "gc": {**_SCHEDULING, "replicaCount": 1, "interval": "1h"},
        "worker": {
            **_SCHEDULING,
            "tolerations": [_CONTROL_PLANE, _GPU],
            "config": {
                "sources": {
                    "pci": {
                        "deviceClassWhitelist": ["02", "0200", "0207", "0300", "0302"],
                        "deviceLabelFields": ["vendor"],
                    }
                }
            },
            "daemonsetAnnotations": {},
            "mountUsrSrc": False,
        },
        "master": {**_SCHEDULING, "replicaCount": 1, "config": {"extraLabelNs": ["nvidia.com"]}},
        "topologyUpdater": {**_SCHEDULING, "enable": False, "createCRDs": False},
        "prometheus": {"enable": False, "labels": {}, "scrapeInterval": "10s"},
        "tls": {"enable": False, "certManager": False},
        "postDeleteCleanup": True,
    },
    "global": {},
    "nameOverride": "",
    "fullnameOverride": "",
}


def merged(values: Mapping[str, Any]) -> JsonObject:
    """The user's values over the defaults, as Helm merges: maps key by key, null removes a key."""
    return merged_over(DEFAULTS, values)


def check(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys, wrong types, and values that cannot be rendered."""
    problems = unfit(values, DEFAULTS, chart=f"gpu-operator {VERSION}")
    if problems:
        return problems
    full = merged(values)
    plugin = full["devicePlugin"]["config"]
    if plugin["create"] and not (plugin["name"] and plugin["data"]):
        problems.append(("devicePlugin.config", "create requires name and data"))
    mig = full["migManager"]["config"]
    if mig["create"] and mig["name"] and not mig["data"]:
        problems.append(
            (
                "migManager.config.data",
                f"must not be empty: the chart would create no ConfigMap {mig['name']!r}, and "
                "mig-manager's pods would wait for it",
            )
        )
    if full["cdi"]["nriPluginEnabled"] and not (
        full["cdi"]["enabled"] and full["toolkit"]["enabled"]
    ):
        problems.append(("cdi.nriPluginEnabled", "requires cdi.enabled and toolkit.enabled"))
    if full["gpuCluster"]["deployCR"]:
        problems.append(
            (
                "gpuCluster.deployCR",
                "must be false: the rehearsal simulates the device-plugin stack (ClusterPolicy), "
                "not the DRA driver",
            )
        )
    if full["driver"]["nvidiaDriverCRD"]["enabled"]:
        problems.append(
            (
                "driver.nvidiaDriverCRD.enabled",
                "must be false: the rehearsal does not simulate NVIDIADriver",
            )
        )
    return problems
