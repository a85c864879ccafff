"""RBAC rules of the node agent and the fleet controller, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.apis.names import (
    CLUSTER_POLICY_PLURAL,
    CONTROLLER_LEASE,
    EVENTS_NAMESPACE,
    GROUP,
    NAMESPACE,
    POOL_PLURAL,
    REPORT_PLURAL,
)

Rule = dict[str, list[str]]
_LEASES: Final = "coordination.k8s.io"

AGENT_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": [GROUP], "resources": [REPORT_PLURAL], "verbs": ["get", "create", "patch"]},
)
"""ClusterRole of the agent. It may not change Nodes, and `report_policy` narrows the reports."""

CONTROLLER_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    # To see whether pods still run on a node whose layout must change, and to ask them to leave. It
    # may delete none: an eviction respects the PodDisruptionBudgets.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    # To see whether the operator's DaemonSet has the driver that is to replace a pod's.
    {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
    {
        "apiGroups": [GROUP],
        "resources": [REPORT_PLURAL, POOL_PLURAL],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [GROUP], "resources": [f"{POOL_PLURAL}/status"], "verbs": ["patch"]},
    # To remove the finalizer of a pool that is being deleted, and an undo that has ended:
    # finalizers and annotations are not part of the status. `pool_policy` allows no more.
    {"apiGroups": [GROUP], "resources": [POOL_PLURAL], "verbs": ["patch"]},
    # To quote why NVIDIA's operator does not serve a node.
    {"apiGroups": ["nvidia.com"], "resources": [CLUSTER_POLICY_PLURAL], "verbs": ["list"]},
)
"""ClusterRole of the controller."""

CONTROLLER_NAMESPACE_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    EVENTS_NAMESPACE: (
        {
            "apiGroups": [""],
            "resources": ["events"],
            "verbs": ["get", "list", "create", "patch", "delete"],
        },
    ),
    NAMESPACE: (
        # To quote why an agent's DaemonSet cannot make its pods.
        {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
        # To decide which of its replicas acts. RBAC cannot limit a creation to one name.
        {"apiGroups": [_LEASES], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": [_LEASES],
            "resources": ["leases"],
            "resourceNames": [CONTROLLER_LEASE],
            "verbs": ["get", "update"],
        },
    ),
}
"""Namespace -> rules of the controller's Role there. It creates and deletes warnings about pools,
and holds its Lease.
"""

PROOF_POD_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]},
)
"""Further rules of the controller's Role in NAMESPACE, only if a pool has `verification.pod`.
`proof_pods` narrows the pods.
"""
