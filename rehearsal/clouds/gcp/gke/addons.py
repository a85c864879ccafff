"""GKE's own add-ons that a rehearsal needs: the GPU device plugin, whose pod also partitions, and
the quota without which critical pods are refused.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_api import NodeApi

IMAGE = "gke.gcr.io/nvidia-gpu-device-plugin:1.36.0-gke.10"
NAME = "nvidia-gpu-device-plugin"
_VOLUMES = {
    "device-plugin": ("/var/lib/kubelet/device-plugins", "/device-plugin"),
    "dev": ("/dev", "/dev"),
    "nvidia": ("/home/kubernetes/bin/nvidia", "/usr/local/nvidia"),
    "pod-resources": ("/var/lib/kubelet/pod-resources", "/var/lib/kubelet/pod-resources"),
    "proc": ("/proc", "/proc"),
    "nvidia-config": ("/etc/nvidia", "/etc/nvidia"),
}
"""Of the device plugin: name -> path on the node, and path in the container."""


def install(api: NodeApi) -> None:
    # First: without it, not even GKE's own pods of critical priority are admitted.
    api.install("/api/v1/namespaces/kube-system/resourcequotas", critical_pods())
    api.install("/apis/apps/v1/namespaces/kube-system/daemonsets", device_plugin())


def critical_pods() -> JsonObject:
    """Its ResourceQuota, which limits nothing. Source: openservicemesh/osm #4408, as read there."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": "gcp-critical-pods",
            "namespace": "kube-system",
            "labels": {"addonmanager.kubernetes.io/mode": "Reconcile"},
        },
        "spec": {
            "hard": {"pods": "1G"},
            "scopeSelector": {
                "matchExpressions": [
                    {
                        "operator": "In",
                        "scopeName": "PriorityClass",
                        "values": ["system-node-critical", "system-cluster-critical"],
                    }
                ]
            },
        },
    }


def device_plugin() -> JsonObject:
    """Its DaemonSet.

    Source: cmd/nvidia_gpu/device-plugin.yaml of GoogleCloudPlatform/container-engine-accelerators.
    """
    labels = {"k8s-app": NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": NAME,
            "namespace": "kube-system",
            "labels": labels | {"addonmanager.kubernetes.io/mode": "Reconcile"},
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": _device_plugin_pod()},
        },
    }


def _device_plugin_pod() -> JsonObject:
    requirements = [
        {"key": "cloud.google.com/gke-accelerator", "operator": "Exists"},
        {"key": "gke-no-default-nvidia-gpu-device-plugin", "operator": "DoesNotExist"},
    ]
    return {
        "priorityClassName": "system-node-critical",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": requirements}]
                }
            }
        },
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "hostPID": True,
        "containers": [_device_plugin_container()],
        "volumes": [
            {"name": name, "hostPath": {"path": on_the_node}}
            for name, (on_the_node, _) in _VOLUMES.items()
        ],
    }


def _device_plugin_container() -> JsonObject:
    return {
        "name": NAME,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "/usr/bin/nvidia-gpu-device-plugin",
            "-logtostderr",
            "--enable-container-gpu-metrics",
            "--enable-health-monitoring",
            "--gpu-config=/etc/nvidia/gpu_config.json",
        ],
        "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
        "resources": {
            "requests": {"cpu": "50m", "memory": "50Mi"},
            "limits": {"memory": "100Mi"},
        },
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": name, "mountPath": in_the_container}
            for name, (_, in_the_container) in _VOLUMES.items()
        ],
    }
