"""Why NVIDIA's operands do not serve a node: what their pods on it wait for, else what the GPU
operator says of itself. Pure.

Sources: NVIDIA/gpu-operator, internal/conditions/clusterpolicy.go and controllers/state_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from apis.names import DEPLOY_LABEL_PREFIX
from fleet_controller.nodes.image_pulls import OPERATOR
from fleet_controller.nodes.waiting_pods import CRASH_LOOP, Object, node_of, waits_for
from fleet_controller.objects.state import Node
from telemetry.plain import plain

OPERAND_SELECTOR: Final = "app.kubernetes.io/managed-by=gpu-operator"
"""A label of the pods of every DaemonSet that the operator makes."""
_PRESENT: Final = "nvidia.com/gpu.present"
_FOUND_BY_NFD: Final = tuple(
    f"feature.node.kubernetes.io/pci-{name}.present" for name in ("10de", "0302_10de", "0300_10de")
)
"""By one of these the operator knows a node with a GPU."""
_OF_KUBERNETES: Final = "node.kubernetes.io/"
_NOTHING_RUNS: Final = ("NoGPUNodes", "NFDLabelsMissing")
"""Reasons of a ClusterPolicy that is ready, though it serves no node."""
_LONGEST = 600
"""Characters of an answer: it becomes part of a condition."""


def reasons(
    nodes: Iterable[Node],
    pods: Iterable[Object],
    policies: Sequence[Object],
    others: Iterable[Node] = (),
) -> dict[str, str]:
    """Why, by node, where something is known.

    others: nodes of which only operands that end again and again are told: each text is a write,
    and what a whole pool waits for its first nodes say. pods: the operands' pods that wait for
    something, of all these nodes, and those that are bound to no node. policies: all
    ClusterPolicies; without one, no operands are expected.
    """
    if not policies:
        return {}
    waiting = _waiting(pods)
    found = {}
    for node in nodes:
        if node.labels.get(f"{DEPLOY_LABEL_PREFIX}operands") == "false":
            continue
        own = next(iter(waiting.get(node.name, ())), None)
        why = own or _of_discovery(node) or _of_operator(policies)
        if why:
            found[node.name] = why
    for node in others:
        crashes = (why for why in waiting.get(node.name, ()) if CRASH_LOOP in why)
        if why := next(crashes, None):
            found[node.name] = why
    # Repeated in conditions and events, which people read in terminals.
    return {name: plain(why)[:_LONGEST] for name, why in found.items()}


def _waiting(pods: Iterable[Object]) -> dict[str, list[str]]:
    """Node -> what its pods wait for, by the pods' names."""
    found: dict[str, list[str]] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if why := waits_for(pod, OPERATOR):
            found.setdefault(node_of(pod), []).append(why)
    return found


def _of_discovery(node: Node) -> str | None:
    if any(node.labels.get(key) == "true" for key in (_PRESENT, *_FOUND_BY_NFD)):
        return None
    # Those of the node's state every DaemonSet tolerates.
    taints = [key for key in node.taint_keys if not key.startswith(_OF_KUBERNETES)]
    tolerating = f" and tolerate its taints ({', '.join(taints)})" if taints else ""
    return (
        f"Node Feature Discovery has not labelled the node ({_FOUND_BY_NFD[0]}), so it gets no "
        f"operands: its worker must run there{tolerating}"
    )


def _of_operator(policies: Sequence[Object]) -> str | None:
    # Of several, the operator uses the oldest.
    policy = min(policies, key=lambda one: str(one["metadata"].get("creationTimestamp", "")))
    name, status = policy["metadata"]["name"], policy.get("status") or {}
    for condition in status.get("conditions") or ():
        said = f"ClusterPolicy {name}: {condition.get('reason')}: {condition.get('message')}"
        true, kind = condition.get("status") == "True", condition.get("type")
        if true and (kind == "Error" or condition.get("reason") in _NOTHING_RUNS):
            return said
    if status.get("state") == "ready":
        return None
    return f"ClusterPolicy {name} is {status.get('state') or 'not looked at by the operator yet'}"
