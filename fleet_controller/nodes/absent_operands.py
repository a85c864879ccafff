"""Explains why NVIDIA's operands do not serve a node: their pods on it wait for something, or else
the GPU operator reports a problem. Pure.

Sources: NVIDIA/gpu-operator, internal/conditions/clusterpolicy.go and controllers/state_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from slicewright.apis.names import DEPLOY_LABEL_PREFIX
from slicewright.fleet_controller.nodes.image_pulls import OPERATOR
from slicewright.fleet_controller.nodes.waiting_pods import (
    CRASH_LOOP,
    Object,
    node_of,
    validator_fails,
    waits_for,
)
from slicewright.fleet_controller.objects.node import Node
from slicewright.telemetry.plain import plain

OPERAND_SELECTOR: Final = "app.kubernetes.io/managed-by=gpu-operator"
"""A label on the pods of every DaemonSet that the operator creates."""
_PRESENT: Final = "nvidia.com/gpu.present"
_FOUND_BY_NFD: Final = tuple(
    f"feature.node.kubernetes.io/pci-{name}.present" for name in ("10de", "0302_10de", "0300_10de")
)
"""One of these labels tells the operator that a node has a GPU."""
_OF_KUBERNETES: Final = "node.kubernetes.io/"
_NOTHING_RUNS: Final = ("NoGPUNodes", "NFDLabelsMissing")
"""Reasons of a ClusterPolicy that is ready, though it serves no node."""
_LONGEST = 600
"""Longest answer in characters. It becomes part of a condition."""


def reasons(
    nodes: Iterable[Node],
    pods: Iterable[Object],
    policies: Sequence[Object],
    more_nodes: Iterable[Node] = (),
) -> dict[str, str]:
    """Returns node -> why operands do not serve it, for nodes with a known cause.

    pods: the operands' pods that wait for something, of all these nodes, and those that are bound
    to no node.
    policies: all ClusterPolicies. Without one, no operands are expected.
    more_nodes: nodes that are only checked for operands that end again and again. Each text is a
    write, and if a whole pool waits, the texts of its first nodes are enough.
    """
    if not policies:
        return {}
    waiting = _waiting(pods)
    causes = {}
    for node in nodes:
        if node.labels.get(f"{DEPLOY_LABEL_PREFIX}operands") == "false":
            continue
        waits = _most_telling(waiting.get(node.name, ()))
        why = waits or _of_discovery(node) or _of_operator(policies)
        if why:
            causes[node.name] = why
    for node in more_nodes:
        crashes = [why for why in waiting.get(node.name, ()) if CRASH_LOOP in why]
        if crashes:
            causes[node.name] = _most_telling(crashes) or ""
    # Repeated in conditions and events, which people read in terminals.
    return {name: plain(why)[:_LONGEST] for name, why in causes.items()}


def _most_telling(lines: Sequence[str]) -> str | None:
    """Returns the line about a failing validator, or else the first one."""
    return next((line for line in lines if validator_fails(line)), next(iter(lines), None))


def _waiting(pods: Iterable[Object]) -> dict[str, list[str]]:
    """Returns node -> the reasons why its pods wait, sorted by the pods' names."""
    causes: dict[str, list[str]] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if why := waits_for(pod, OPERATOR):
            causes.setdefault(node_of(pod), []).append(why)
    return causes


def _of_discovery(node: Node) -> str | None:
    if any(node.labels.get(key) == "true" for key in (_PRESENT, *_FOUND_BY_NFD)):
        return None
    # Every DaemonSet tolerates the taints for the node's state.
    taints = [key for key in node.taint_keys if not key.startswith(_OF_KUBERNETES)]
    tolerating = f" and tolerate its taints ({', '.join(taints)})" if taints else ""
    return (
        f"Node Feature Discovery has not labelled the node ({_FOUND_BY_NFD[0]}), so it gets no "
        f"operands: its worker must run there{tolerating}"
    )


def _of_operator(policies: Sequence[Object]) -> str | None:
    # The operator uses the oldest of several.
    policy = min(policies, key=lambda policy: str(policy["metadata"].get("creationTimestamp", "")))
    name, status = policy["metadata"]["name"], policy.get("status") or {}
    for condition in status.get("conditions") or ():
        message = f"ClusterPolicy {name}: {condition.get('reason')}: {condition.get('message')}"
        true, kind = condition.get("status") == "True", condition.get("type")
        if true and (kind == "Error" or condition.get("reason") in _NOTHING_RUNS):
            return message
    if status.get("state") == "ready":
        return None
    return f"ClusterPolicy {name} is {status.get('state') or 'not reconciled by the operator yet'}"
