"""The pods that are NVIDIA's operands: those in the namespace of the GPU operator. Pure.

Their labels prove nothing: anybody who may make pods in any namespace can give them the same. The
operator makes all its operands in its own namespace. It writes the name of that into the status of
the ClusterPolicy, which only the operator writes, no matter where and how it was installed. Source:
NVIDIA/gpu-operator, api/nvidia/v1 (ClusterPolicyStatus), controllers/state_manager.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewright.fleet_controller.objects.node_pods import NodePod


def namespaces_of(policies: Sequence[Mapping[str, Any]]) -> frozenset[str] | None:
    """Returns the namespaces of operands, by all ClusterPolicies. None if there is no operator."""
    if not policies:
        return None
    stated = ((policy.get("status") or {}).get("namespace") for policy in policies)
    return frozenset(name for name in stated if isinstance(name, str) and name)


def may_be_operand(pod: NodePod) -> bool:
    """True if its labels say that it is an operand."""
    return pod.daemon_set and bool(pod.app or pod.driver)


def without_forged_labels(pod: NodePod, namespaces: frozenset[str] | None) -> NodePod:
    """Returns the pod. A pod that only looks like an operand loses that look."""
    if namespaces is None or pod.namespace in namespaces:
        return pod
    return replace(pod, app="", driver="", owner="")
