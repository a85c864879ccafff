"""The pod of HAMi's device plugin. Source: Project-HAMi/HAMi v2.10.0,
charts/hami/templates/device-plugin/daemonsetnvidia.yaml.
"""

from __future__ import annotations

from typing import Final

from slicewright.kubeapi import JsonObject

_FILE: Final = "device-config.yaml"
_PRIVILEGED: Final[JsonObject] = {
    "privileged": True,
    "allowPrivilegeEscalation": True,
    "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
}


def pod(full: JsonObject, *, image: str, monitor: str, config: str) -> JsonObject:
    """config: the ConfigMap with the plugin's settings."""
    settings = full["devicePlugin"]
    spec: JsonObject = {
        "priorityClassName": "system-node-critical",
        "containers": [_plugin(full, image), _monitor(full, monitor)],
        "volumes": [
            {"name": "device-plugin", "hostPath": {"path": settings["pluginPath"]}},
            {"name": "device-config", "configMap": {"name": config}},
        ],
    }
    ready = settings["gpuOperatorToolkitReady"]
    if ready["enabled"]:
        path = {"path": ready["hostPath"], "type": "DirectoryOrCreate"}
        spec["initContainers"] = [_toolkit_ready(image, ready["hostPath"])]
        spec["volumes"].append({"name": "nvidia-validations", "hostPath": path})
    for key, value in (
        ("nodeSelector", settings["nvidiaNodeSelector"]),
        ("tolerations", settings["tolerations"]),
        ("runtimeClassName", settings["runtimeClassName"]),
    ):
        if value:
            spec[key] = value
    return spec


def _plugin(full: JsonObject, image: str) -> JsonObject:
    return {
        "name": "device-plugin",
        "image": image,
        "imagePullPolicy": full["devicePlugin"]["image"]["pullPolicy"],
        "command": ["nvidia-device-plugin", f"--config-file=/{_FILE}"],
        "env": [*_env(full), {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "securityContext": _PRIVILEGED,
        "volumeMounts": [
            {"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"},
            {"name": "device-config", "mountPath": f"/{_FILE}", "subPath": _FILE},
        ],
    }


def _monitor(full: JsonObject, image: str) -> JsonObject:
    return {
        "name": "vgpu-monitor",
        "image": image,
        "imagePullPolicy": full["devicePlugin"]["monitor"]["image"]["pullPolicy"],
        "command": ["vGPUmonitor"],
        "env": _env(full),
        "ports": [{"name": "metrics", "containerPort": 9394, "protocol": "TCP"}],
        "securityContext": _PRIVILEGED,
    }


def _env(full: JsonObject) -> list[JsonObject]:
    return [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"},
        {"name": "HOOK_PATH", "value": full["global"]["gpuHookPath"]},
    ]


def _toolkit_ready(image: str, path: str) -> JsonObject:
    """Waits until the GPU operator's toolkit is proven."""
    script = f"until [ -f {path}/toolkit-ready ]; do sleep 5; done"
    return {
        "name": "toolkit-validation",
        "image": image,
        "command": ["sh", "-c"],
        "args": [script],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [{"name": "nvidia-validations", "mountPath": path, "readOnly": True}],
    }
