"""Google's driver installer, for GKE nodes whose GPUs the GPU Operator manages.

GKE installs drivers by an init container of its device plugin's DaemonSet. The label that keeps
GKE's device plugin off these nodes keeps that container off, too. So the pools do not ask GKE for a
driver, and the installer runs as a DaemonSet, from an image that GKE puts on every node. Sources:
NVIDIA GPU operator docs, "Google GKE"; GoogleCloudPlatform/container-engine-accelerators,
nvidia-driver-installer/{cos,ubuntu}/daemonset-preloaded.yaml; NVIDIA/aicr,
docs/integrator/gke-gpu-setup.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.apis.names import AGENT_PRIORITY_CLASS, POOL_LABEL
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import NO_GKE_PLUGIN_LABEL, GkeFleetPlan
from slicewright.infra.stack_file import GpuOperator

DRIVER_DIRECTORY: Final = "/home/kubernetes/bin/nvidia"
"""Google's installer puts the driver here on the node: /home is writable and survives reboots.
Source: NVIDIA GPU operator docs, "Google GKE".
"""
_OS_LABEL: Final = "cloud.google.com/gke-os-distribution"
"""The label that GKE sets on every node: `cos` or `ubuntu`."""
_GUARDED: Final = """\
if lsmod | grep -q '^nvidia '; then
  echo "the GPU driver is loaded already: nothing is installed"
  exit 0
fi
/cos-gpu-installer install || exit 1
chmod 755 /root/home/kubernetes/bin/nvidia
"""
"""The installer would fail, or change the driver under running pods. Source: Google's manifest for
Container-Optimized OS has the same guard, and makes the directory readable for all.
"""
_PAUSE: Final = "pause:3.10"
"""The path below registry.k8s.io. Source: k8s.io/kubernetes, build/pause."""
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
    """A DaemonSet for each kind of node image in the operator's pools. Empty if the operator
    itself installs the driver.
    """
    if plan.operator is None or plan.operator.driver.enabled:
        return []
    images = [pool.settings.image_type.lower() for pool in plan.operated]
    return [
        _daemon_set(system, plan)
        for system in ("cos", "ubuntu")
        if any(image.startswith(system) for image in images)
    ]


def _daemon_set(system: str, plan: GkeFleetPlan) -> JsonObject:
    assert plan.operator is not None
    name = f"nvidia-driver-installer-{system}"
    labels = {"app.kubernetes.io/name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": plan.operator.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": _pod(plan.operator, cos=system == "cos"),
            },
        },
    }


def _pod(operator: GpuOperator, *, cos: bool) -> JsonObject:
    pod: JsonObject = {
        "priorityClassName": AGENT_PRIORITY_CLASS,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": _nodes(cos=cos)}]
                }
            }
        },
        # As in Google's manifests, and the same for all pools: a change of the template would start
        # the installer again on every node.
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        # Google's manifest for Container-Optimized OS has these: the installer downloads the driver
        # through the node's own network, and loads a kernel module.
        **({"hostNetwork": True, "hostPID": True} if cos else {}),
        # Google's manifest has a second one, which partitions GPUs. Here mig-manager does.
        "initContainers": [_installer(cos=cos)],
        "containers": [_pause(operator.registry or "registry.k8s.io")],
        "volumes": [
            {"name": volume, "hostPath": {"path": _HOST[volume]}}
            for volume in (_COS if cos else _UBUNTU)
        ],
    }
    if operator.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in operator.image_pull_secrets]
    return pod


def _pause(mirror: str) -> JsonObject:
    """Keeps the pod running once the driver is installed."""
    return {
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


def _nodes(*, cos: bool) -> list[JsonObject]:
    """Selects the nodes of the operator's pools, by labels that no added or removed pool changes:
    with another template the installer would run again under the GPU pods of every node.
    """
    return [
        {"key": POOL_LABEL, "operator": "Exists"},
        {"key": NO_GKE_PLUGIN_LABEL, "operator": "In", "values": ["true"]},
        {"key": _OS_LABEL, "operator": "In", "values": ["cos" if cos else "ubuntu"]},
        # GKE sets this label if it installs the driver itself.
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
        # The image is on every node under this name, and in no registry.
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "150m"}},
        "securityContext": {"privileged": True},
        **({"command": ["bash", "-c", _GUARDED]} if cos else {}),
        **({"env": [{"name": k, "value": v} for k, v in environment.items()]} if cos else {}),
        "volumeMounts": [
            {"name": volume, "mountPath": _CONTAINER[volume]}
            for volume in (_COS if cos else _UBUNTU)
        ],
    }
