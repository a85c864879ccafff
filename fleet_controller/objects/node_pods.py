"""Pods on nodes, parsed from the API server's objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.apis.device_plugins import (
    GKE_PLUGIN,
    image_name,
    is_for_gpus,
    mounts_plugin_directory,
)
from slicewright.fleet_controller.objects.bounds import seconds, text
from slicewright.fleet_controller.objects.shares import (
    PodShares,
    read_pod_shares,
    scheduler_started,
)

_GPU_RESOURCE_PREFIXES = ("nvidia.com/", "volcano.sh/vgpu-")
"""NVIDIA's resources, and those of Volcano's device plugin."""
_MIRROR = "kubernetes.io/config.mirror"
_COMPONENT, _DRIVER = "app.kubernetes.io/component", "nvidia-driver"
_DRIVER_CONTAINER = "nvidia-driver-ctr"
"""Source of the three: NVIDIA/gpu-operator, assets/state-driver/0500_daemonset.yaml."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePod:
    """A pod on a node that has not ended. A controller knows tens of thousands of them."""

    namespace: str
    name: str
    uid: str
    gpus: bool
    """True if it requests GPUs."""
    controlled: bool = True
    """True if a controller makes another one when it is gone."""
    daemon_set: bool = False
    static: bool = False
    """True if it comes from a file on the node. The API server has only a mirror of it."""
    local_data: bool = False
    """True if it has an emptyDir on disk. An emptyDir in memory does not count: it is the shared
    memory of most GPU programs. Source: kubernetes/autoscaler, simulator/drainability
    (rules/localstorage).
    """
    leaving: bool = False
    """True if it is being deleted."""
    app: str = ""
    """Its label `app`, which identifies NVIDIA's operands."""
    driver: str = ""
    """Image tag of a pod that brings NVIDIA's driver, such as 580.95.05-ubuntu22.04."""
    next_driver: str = ""
    """Image tag in the template of its DaemonSet, or empty if not known."""
    owner: str = ""
    """The DaemonSet of a pod that brings the driver."""
    plugin: str = ""
    """The DaemonSet of a pod that registers NVIDIA's GPUs with the kubelet."""
    created: float = 0.0
    """Seconds since the epoch."""
    node: str = ""
    shares: PodShares | None = None
    """None if it requests no cards of an engine for fractions."""
    scheduler_started: float = 0.0
    """Last start of an engine's scheduler, in seconds since the epoch. 0 for all other pods."""

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_pod(raw: Mapping[str, Any]) -> NodePod:
    """Parses a Pod. Raises KeyError or TypeError for anything else."""
    meta, spec = raw["metadata"], raw["spec"]
    owners = meta.get("ownerReferences") or ()
    owner: Mapping[str, Any] = next((o for o in owners if o.get("controller")), {})
    labels = meta.get("labels") or {}
    in_daemon_set = owner.get("kind") == "DaemonSet"
    driver = driver_tag(spec) if in_daemon_set and labels.get(_COMPONENT) == _DRIVER else ""
    return NodePod(
        namespace=text(meta["namespace"]),
        name=text(meta["name"]),
        uid=text(meta["uid"]),
        gpus=requests_gpus(raw),
        controlled=bool(owner),
        daemon_set=in_daemon_set,
        static=_MIRROR in (meta.get("annotations") or {}),
        local_data=any(
            "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory"
            for volume in spec.get("volumes") or ()
        ),
        leaving="deletionTimestamp" in meta,
        app=text(labels.get("app")),
        driver=driver,
        owner=text(owner["name"]) if driver else "",
        plugin=_gpu_plugin(text(owner.get("name")), spec) if in_daemon_set else "",
        created=seconds(meta.get("creationTimestamp")),
        node=text(spec.get("nodeName")),
        shares=read_pod_shares(raw),
        scheduler_started=scheduler_started(raw, text(labels.get("app"))),
    )


def unreadable_pod(raw: Mapping[str, Any], why: str, last: NodePod | None = None) -> NodePod:
    """Returns a stand-in for a pod that cannot be read. It uses GPUs and may not be evicted, so
    that no layout changes under it.

    Raises KeyError or TypeError if not even its name and node can be read.
    """
    meta = raw["metadata"]
    return NodePod(
        namespace=text(meta["namespace"]),
        name=text(meta["name"]),
        uid=text(meta["uid"]),
        gpus=True,
        controlled=False,
        node=last.node if last else text(raw["spec"].get("nodeName")),
    )


def _gpu_plugin(daemon_set: str, spec: Mapping[str, Any]) -> str:
    """Returns the DaemonSet if its pod registers NVIDIA's GPUs with the kubelet, else an empty
    text. GKE's own plugin does not count: GKE adds it to the node pools that need it.
    """
    if daemon_set.startswith(GKE_PLUGIN):
        return ""
    host_paths = [
        (volume.get("hostPath") or {}).get("path") for volume in spec.get("volumes") or ()
    ]
    if not mounts_plugin_directory(filter(None, host_paths)):
        return ""
    containers = spec.get("containers") or ()
    images = [container.get("image") or "" for container in containers]
    variables = [entry for container in containers for entry in container.get("env") or ()]
    of_nvidia = GKE_PLUGIN not in map(image_name, images) and is_for_gpus(
        daemon_set,
        images,
        runtime_class=spec.get("runtimeClassName") or "",
        selected_labels=spec.get("nodeSelector") or {},
        words=[variable["name"] for variable in variables],
    )
    return daemon_set if of_nvidia else ""


def driver_tag(pod_spec: Mapping[str, Any]) -> str:
    """Returns the image tag of NVIDIA's driver in a pod that brings it. Returns an empty text if
    there is no tag, as for an image that is named by digest.
    """
    containers = pod_spec.get("containers") or ()
    image = next((c.get("image") or "" for c in containers if c["name"] == _DRIVER_CONTAINER), "")
    path, _, tag = image.rpartition("/")[2].partition(":")
    return "" if "@" in path + tag else tag


def requests_gpus(pod: Mapping[str, Any]) -> bool:
    """True if a Pod requests whole GPUs, MIG devices, replicas, or shares of an engine."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return any(
        resource.startswith(_GPU_RESOURCE_PREFIXES) and str(quantity) != "0"
        for container in containers
        for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items()
    )


def gpu_pod_paths(pods: tuple[NodePod, ...] | None) -> tuple[str, ...] | None:
    """Returns the names of pods that use GPUs, or None if the pods are not known."""
    return None if pods is None else tuple(sorted(pod.path for pod in pods if pod.gpus))
