"""What a pod waits for, and on which node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

CRASH_LOOP = "CrashLoopBackOff"
"""The kubelet's reason for a container that ends again and again."""
_ORDINARY = (None, "ContainerCreating", "PodInitializing")
"""Reasons that every pod's containers wait for."""


def waits_for(pod: Object) -> str | None:
    """What the pod or one of its containers waits for, or why it failed; None where it runs."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for one in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        waiting = (one.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in _ORDINARY:
            return f"pod {name}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"pod {name}: {condition.get('reason', '')}: {condition.get('message', '')}"
    if status.get("phase") == "Failed":
        return f"pod {name}: {status.get('reason', 'Failed')}: {status.get('message', '')}"
    return None


def kept(pod: Object) -> Object:
    """What of a pod is needed here."""
    spec = {key: pod["spec"][key] for key in ("nodeName", "affinity") if key in pod["spec"]}
    return {
        "metadata": {"name": pod["metadata"]["name"]},
        "spec": spec,
        "status": pod.get("status") or {},
    }


def kept_waiting(pod: Object) -> Object | None:
    """The same; None of a pod that waits for nothing."""
    return kept(pod) if waits_for(pod) else None


def node_of(pod: Object) -> str:
    """Its node, or before it is bound the one that its DaemonSet's controller made it for; empty:
    none yet.
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
