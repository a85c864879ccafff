"""Why a node's agent does not report: what its pod waits for, or why it has none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from telemetry.plain import plain

AGENT_SELECTOR = "app.kubernetes.io/name=node-agent"
_LONGEST = 400
"""Characters of an answer: it becomes part of a condition."""

Object = Mapping[str, Any]


def reasons(
    pool_of: Mapping[str, str], pods: Sequence[Object], events: Sequence[Object]
) -> dict[str, str]:
    """Why, by node, where something is known.

    pool_of: the pool of each node that has no report. pods: all agents' pods. events: Warning
    Events about DaemonSets in their namespace.
    """
    by_node = {pod["spec"].get("nodeName") or _wanted_node(pod): pod for pod in pods}
    refused = _newest(events)
    found = {}
    for node, pool in pool_of.items():
        pod = by_node.get(node)
        why = refused.get(f"node-agent-{pool}") if pod is None else _waiting(pod)
        if why:
            # Repeated in conditions and events, which people read in terminals.
            found[node] = plain(why)[:_LONGEST]
    return found


def _newest(events: Sequence[Object]) -> dict[str, str]:
    """The newest Warning by the name of the DaemonSet that it is about."""
    ordered = sorted(events, key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
    return {
        e["involvedObject"]["name"]: f"{e.get('reason', '')}: {e.get('message', '')}"
        for e in ordered
        if e["involvedObject"].get("kind") == "DaemonSet"
    }


def _waiting(pod: Object) -> str | None:
    """What the pod or one of its containers waits for; None where it runs."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for one in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        waiting = (one.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"pod {name}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"pod {name}: {condition.get('reason', '')}: {condition.get('message', '')}"
    if status.get("phase") == "Failed":
        return f"pod {name}: {status.get('reason', 'Failed')}: {status.get('message', '')}"
    return None


def _wanted_node(pod: Object) -> str:
    """The node that the DaemonSet controller made the pod for, before it is bound."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""
