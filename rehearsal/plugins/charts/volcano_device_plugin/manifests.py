"""The objects of the chart, without the files of HAMi-core that its hook copies to the node: the
simulated NVML obeys their limits itself. Source: Project-HAMi/volcano-vgpu-device-plugin,
deployments/helm/volcano-vgpu-device-plugin/templates/daemonset.yaml of 1.12.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.volcano_device_plugin.values import merged

_NAME: Final = "volcano-device-plugin"
_CONFIG: Final = "volcano-vgpu-device-config"
_RBAC: Final = "rbac.authorization.k8s.io"
_RULES: Final[list[JsonObject]] = [
    {"apiGroups": [""], "resources": resources, "verbs": verbs}
    for resources, verbs in (
        (["nodes"], ["get", "list", "watch", "update", "patch"]),
        (["pods"], ["get", "list", "watch", "update", "patch"]),
        (["configmaps"], ["get", "list", "watch"]),
    )
]
_PRIVILEGED: Final[JsonObject] = {
    "privileged": True,
    "allowPrivilegeEscalation": True,
    "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
}


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order. The values must have passed `check`."""
    full = merged(values)
    config = yaml.safe_dump(full["deviceConfig"], sort_keys=False)
    manifests = [
        _object(full, "v1", "ConfigMap", _CONFIG, data={"device-config.yaml": config}),
        _object(full, "apps/v1", "DaemonSet", _NAME, spec=_daemon_set(full, release)),
    ]
    return manifests + _rights(full) if full["rbac"]["create"] else manifests


def _rights(full: JsonObject) -> list[JsonObject]:
    account = full["rbac"]["serviceAccountName"]
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _NAME}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": full["namespace"]}
    return [
        _object(full, "v1", "ServiceAccount", account),
        _object(full, f"{_RBAC}/v1", "ClusterRole", _NAME, rules=_RULES),
        _object(full, f"{_RBAC}/v1", "ClusterRoleBinding", _NAME, roleRef=role, subjects=[subject]),
    ]


def _daemon_set(full: JsonObject, release: str) -> JsonObject:
    labels = {"name": _NAME, "app.kubernetes.io/instance": release}
    pod: JsonObject = {
        "serviceAccountName": full["rbac"]["serviceAccountName"],
        "priorityClassName": full["daemonset"]["priorityClassName"],
        "containers": [_plugin(full)],
        "volumes": _volumes(full),
    }
    if full["monitor"]["enabled"]:
        pod["containers"].append(_monitor(full))
    for key in ("tolerations", "nodeSelector", "affinity", "runtimeClassName"):
        if full[key]:
            pod[key] = full[key]
    return {
        "selector": {"matchLabels": {"name": _NAME}},
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def _plugin(full: JsonObject) -> JsonObject:
    return {
        "name": _NAME,
        **_image(full["image"]),
        "env": [
            *_env(full),
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
            {"name": "DEVICE_CONFIG_NAMESPACE", "value": full["namespace"]},
        ],
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {"name": "deviceconfig", "mountPath": "/config"},
            {"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"},
            {"name": "lib", "mountPath": "/usr/local/vgpu"},
        ],
    }


def _monitor(full: JsonObject) -> JsonObject:
    return {
        "name": "monitor",
        **_image(full["monitor"]["image"]),
        "command": ["/bin/bash", "-c", "volcano-vgpu-monitor"],
        "env": _env(full),
        "securityContext": _PRIVILEGED,
        "volumeMounts": [{"name": "lib", "mountPath": "/usr/local/vgpu"}],
    }


def _image(image: JsonObject) -> JsonObject:
    reference = f"{image['repository']}:{image['tag']}"
    return {"image": reference, "imagePullPolicy": image["pullPolicy"]}


def _env(full: JsonObject) -> list[JsonObject]:
    return [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "HOOK_PATH", "value": "/usr/local/vgpu"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"},
        {"name": "KLOG_LEVEL", "value": full["logging"]["klogLevel"]},
    ]


def _volumes(full: JsonObject) -> list[JsonObject]:
    paths = full["hostPaths"]
    plugins = {"path": paths["devicePlugin"], "type": "Directory"}
    library = {"path": paths["vgpuLib"], "type": "DirectoryOrCreate"}
    return [
        {"name": "deviceconfig", "configMap": {"name": _CONFIG}},
        {"name": "device-plugin", "hostPath": plugins},
        {"name": "lib", "hostPath": library},
    ]


def _object(full: JsonObject, api: str, kind: str, name: str, **body: Any) -> JsonObject:
    metadata: JsonObject = {"name": name}
    if not kind.startswith("Cluster"):
        metadata["namespace"] = full["namespace"]
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}
