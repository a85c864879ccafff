"""Explains why a pod waits, and finds the pod's node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.fleet_controller.nodes import image_pulls
from slicewright.fleet_controller.nodes.image_pulls import Keys

Object = Mapping[str, Any]

CRASH_LOOP = "CrashLoopBackOff"
"""The kubelet's reason for a container that ends again and again."""
_VALIDATORS = ("pod nvidia-operator-validator", "pod nvidia-cuda-validator")
"""Starts of lines about the validator's pods. Source: NVIDIA/gpu-operator,
assets/state-operator-validation.
"""
_ORDINARY = (None, "ContainerCreating", "PodInitializing")
"""Reasons for waiting that every pod's containers have."""


def waits_for(pod: Object, keys: Keys = image_pulls.SLICEWRIGHT) -> str | None:
    """Returns why the pod or one of its containers waits, or why it failed. None if it runs.

    keys: the keys in the stack file for its images.
    """
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for container in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in _ORDINARY:
            message = _message(waiting, container, pod, keys)
            return _line(name, waiting.get("reason"), message)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _line(name, condition.get("reason"), condition.get("message"))
    if status.get("phase") == "Failed":
        return _line(name, status.get("reason") or "Failed", status.get("message"))
    return None


def _message(waiting: Object, container: Object, pod: Object, keys: Keys) -> str:
    reason, message = str(waiting.get("reason")), str(waiting.get("message") or "")
    if reason not in image_pulls.PULLING:
        return message
    image, namespace = container.get("image", ""), pod["metadata"].get("namespace", "")
    return image_pulls.explained(reason, message, image, keys, namespace=namespace)


def _line(name: str, *words: object) -> str:
    """Joins the pod's name and the words about it, without missing ones."""
    return ": ".join([f"pod {name}", *(str(word) for word in words if word)])


def validator_fails(why: str | None) -> bool:
    """True if a line of `waits_for` says that NVIDIA's validator ends again and again."""
    return why is not None and CRASH_LOOP in why and why.startswith(_VALIDATORS)


def trim(pod: Object) -> Object:
    """Returns the parts of a pod that are needed here."""
    spec = {key: pod["spec"][key] for key in ("nodeName", "affinity") if key in pod["spec"]}
    return {
        "metadata": {
            key: pod["metadata"][key] for key in ("name", "namespace") if key in pod["metadata"]
        },
        "spec": spec,
        "status": pod.get("status") or {},
    }


def trim_waiting(pod: Object) -> Object | None:
    """Returns the same parts, or None if the pod waits for nothing."""
    return trim(pod) if waits_for(pod) else None


def node_of(pod: Object) -> str:
    """Returns the pod's node. If the pod is not bound yet, this is the node that its DaemonSet's
    controller chose, or empty if there is none.
    """
    return str(pod["spec"].get("nodeName") or _wanted_node(pod))


def _wanted_node(pod: Object) -> str:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""
