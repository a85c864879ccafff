"""Google's driver installer, for GKE nodes whose GPUs the GPU Operator manages.

With the label that keeps GKE's device plugin off, GKE completes no driver installation of its own:
an init container of that plugin's DaemonSet would have to. So these nodes ask GKE for no driver,
and the installer runs as a DaemonSet, from an image that GKE puts on every node. Sources:
NVIDIA GPU operator docs, "Google GKE"; GoogleCloudPlatform/container-engine-accelerators,
nvidia-driver-installer/{cos,ubuntu}/daemonset-preloaded.yaml; NVIDIA/aicr,
docs/integrator/gke-gpu-setup.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from apis.names import AGENT_PRIORITY_CLASS, POOL_LABEL
from infra.plan import GkeFleetPlan, GkePoolPlan
from infra.values.pods import tolerations
from infra.values.text import JsonObject

DRIVER_DIRECTORY: Final = "/home/kubernetes/bin/nvidia"
"""Google's installer puts the driver here on the node: /home is writable and survives reboots.
Source: NVIDIA GPU operator docs, "Google GKE".
"""
_PAUSE: Final = "pause:3.10"
"""Below registry.k8s.io. Source: k8s.io/kubernetes, build/pause."""
_CONTAINER: Final[Mapping[str, str]] = {
    "nvidia-install-dir-host": "/usr/local/nvidia",
    "vulkan-icd-mount": "/etc/vulkan/icd.d",
    "dev": "/dev",
    "boot": "/boot",
    "root-mount": "/root",
    "cos-tools": "/build/cos-tools",
}
"""Volume -> the path where the installers look for it."""
_HOST: Final[Mapping[str, str]] = {
    "nvidia-install-dir-host": DRIVER_DIRECTORY,
    "vulkan-icd-mount": f"{DRIVER_DIRECTORY}/vulkan/icd.d",
    "dev": "/dev",
    "boot": "/boot",
    "root-mount": "/",
    "cos-tools": "/var/lib/cos-tools",
}
_COS: Final = ("nvidia-install-dir-host", "vulkan-icd-mount", "dev", "root-mount", "cos-tools")
_UBUNTU: Final = ("boot", "dev", "root-mount")


def driver_installers(plan: GkeFleetPlan) -> list[JsonObject]:
    """A DaemonSet for each kind of image among the pools of the operator. Empty if the operator
    itself installs the driver.
    """
    if plan.operator is None or plan.operator.driver.enabled:
        return []
    pools = {
        system: [
            pool for pool in plan.operated if pool.settings.image_type.lower().startswith(system)
        ]
        for system in ("cos", "ubuntu")
    }
    return [_daemon_set(system, plan, of) for system, of in pools.items() if of]


def _daemon_set(system: str, plan: GkeFleetPlan, pools: Sequence[GkePoolPlan]) -> JsonObject:
    assert plan.operator is not None
    name = f"nvidia-driver-installer-{system}"
    labels = {"app.kubernetes.io/name": name}
    mirror = plan.operator.registry or "registry.k8s.io"
    cos = system == "cos"
    pod: JsonObject = {
        "priorityClassName": AGENT_PRIORITY_CLASS,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": _nodes(pools)}]
                }
            }
        },
        "tolerations": tolerations(pools),
        "automountServiceAccountToken": False,
        # The manifest for Container-Optimized OS has them: it downloads the driver through the
        # node's own network, and loads a kernel module.
        **({"hostNetwork": True, "hostPID": True} if cos else {}),
        # Google's manifest has a second one, which partitions GPUs. Here mig-manager does.
        "initContainers": [_installer(cos=cos)],
        "containers": [
            {
                "name": "pause",
                "image": f"{mirror}/{_PAUSE}",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                    "runAsNonRoot": True,
                    "runAsUser": 65535,
                },
            }
        ],
        "volumes": [
            {"name": volume, "hostPath": {"path": _HOST[volume]}}
            for volume in (_COS if cos else _UBUNTU)
        ],
    }
    if plan.operator.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": s} for s in plan.operator.image_pull_secrets]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": plan.operator.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _nodes(pools: Sequence[GkePoolPlan]) -> list[JsonObject]:
    return [
        {"key": POOL_LABEL, "operator": "In", "values": sorted(pool.name for pool in pools)},
        # GKE sets it if it installs the driver itself.
        {"key": "cloud.google.com/gke-gpu-driver-version", "operator": "DoesNotExist"},
    ]


def _installer(*, cos: bool) -> JsonObject:
    environment = {
        "NVIDIA_INSTALL_DIR_HOST": _HOST["nvidia-install-dir-host"],
        "NVIDIA_INSTALL_DIR_CONTAINER": _CONTAINER["nvidia-install-dir-host"],
        "VULKAN_ICD_DIR_HOST": _HOST["vulkan-icd-mount"],
        "VULKAN_ICD_DIR_CONTAINER": _CONTAINER["vulkan-icd-mount"],
        "ROOT_MOUNT_DIR": _CONTAINER["root-mount"],
        "COS_TOOLS_DIR_HOST": _HOST["cos-tools"],
        "COS_TOOLS_DIR_CONTAINER": _CONTAINER["cos-tools"],
    }
    return {
        "name": "nvidia-driver-installer",
        "image": "cos-nvidia-installer:fixed" if cos else "gke-nvidia-installer:fixed",
        # On the node already, under this name, and in no registry.
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "150m"}},
        "securityContext": {"privileged": True},
        **({"env": [{"name": k, "value": v} for k, v in environment.items()]} if cos else {}),
        "volumeMounts": [
            {"name": volume, "mountPath": _CONTAINER[volume]}
            for volume in (_COS if cos else _UBUNTU)
        ],
    }
