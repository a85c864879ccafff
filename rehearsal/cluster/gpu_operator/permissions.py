"""What the operands may do: their service accounts, roles and bindings. Pure functions.

Source: NVIDIA/gpu-operator, assets/*/0[123]*.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.gpu_operator.daemonsets import MANAGED

_RBAC = "rbac.authorization.k8s.io/v1"


def _rule(group: str, resources: Sequence[str], *verbs: str) -> JsonObject:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


_READ_NODES = _rule("", ["nodes"], "get", "list", "watch")
_CLUSTER: Mapping[str, tuple[JsonObject, ...]] = {
    # NVIDIA's has a Role too, of everything in its namespace, which it does not need.
    "nvidia-driver": (
        _rule("", ["nodes"], "get", "list", "patch", "update", "watch"),
        _rule(
            *("", ["pods", "pods/eviction"]),
            *("create", "delete", "get", "list", "patch", "update"),
        ),
        _rule("apps", ["daemonsets"], "get"),
    ),
    "nvidia-operator-validator": (_READ_NODES,),
    "nvidia-device-plugin": (_READ_NODES,),
    "nvidia-gpu-feature-discovery": (_READ_NODES, _rule("", ["pods"], "get")),
    "nvidia-mig-manager": (
        _rule("", ["nodes"], "get", "list", "watch", "update", "patch"),
        _rule("", ["pods"], "get", "list"),
        _rule("apps", ["daemonsets"], "get", "list"),
    ),
}
"""Service account -> the rules of its ClusterRole."""
_NAMESPACED: Mapping[str, tuple[JsonObject, ...]] = {
    "nvidia-operator-validator": (
        _rule("", ["pods"], "get", "list", "watch", "create", "update", "patch", "delete"),
        _rule("apps", ["daemonsets"], "get", "list"),
    ),
    "nvidia-gpu-feature-discovery": (
        _rule("nfd.k8s-sigs.io", ["nodefeatures"], "get", "list", "watch", "create", "update"),
    ),
    "nvidia-mig-manager": (_rule("", ["pods"], "get", "list", "watch", "delete"),),
}
"""Service account -> the rules of its Role in the operator's namespace."""


def permissions(account: str, namespace: str) -> list[JsonObject]:
    made: list[JsonObject] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "labels": dict(MANAGED), "namespace": namespace},
        }
    ]
    if account in _CLUSTER:
        made += _role("ClusterRole", account, _CLUSTER[account], namespace)
    if account in _NAMESPACED:
        made += _role("Role", account, _NAMESPACED[account], namespace)
    return made


def _role(
    kind: str, account: str, rules: Sequence[JsonObject], namespace: str
) -> tuple[JsonObject, JsonObject]:
    """A Role or ClusterRole, and its binding to the service account of the same name."""
    metadata: JsonObject = {"name": account, "labels": dict(MANAGED)}
    if kind == "Role":
        metadata["namespace"] = namespace
    role: JsonObject = {
        "apiVersion": _RBAC,
        "kind": kind,
        "metadata": dict(metadata),
        "rules": list(rules),
    }
    binding: JsonObject = {
        "apiVersion": _RBAC,
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    return role, binding
