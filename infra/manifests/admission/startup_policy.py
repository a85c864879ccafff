"""The admission policy that gives the startup taint to nodes that slicewright does not create.

A cloud's node pool registers its nodes with the taint. Without a node pool, the API server adds it
in the request that makes a node a member of a pool, so that no pod comes in between.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from slicewright.apis.names import STARTUP_TAINT, STARTUP_TAINT_KEY
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import ExistingPoolPlan

_NAME: Final = "slicewright-startup-taint"
_NODE_WRITES: Final[JsonObject] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["nodes"],
}


def startup_policy(pools: Sequence[ExistingPoolPlan]) -> tuple[JsonObject, JsonObject]:
    """MutatingAdmissionPolicy and Binding: a node that becomes a member gets the startup taint.

    A node becomes a member when it is created with the labels that a pool selects by, or when it
    gets them later: cloud controllers add labels to nodes that have registered already. An update
    by a kubelet is exempt: NodeRestriction runs again after a mutation, and refuses a kubelet's
    update that changes taints. Nodes that were members before the policy existed do not match.

    Needs Kubernetes 1.36 (KEP-3962). It fails closed, as the other policies do. Its expressions
    read every optional field as optional, so that none of them can raise an error.
    """
    policy: JsonObject = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": _NAME},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [_NODE_WRITES]},
            "matchConditions": _match_conditions(pools),
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _add_taint()}}],
        },
    }
    binding: JsonObject = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": _NAME},
        "spec": {"policyName": _NAME},
    }
    return policy, binding


def _match_conditions(pools: Sequence[ExistingPoolPlan]) -> list[JsonObject]:
    has_taint = f"object.?spec.?taints.orValue([]).exists(t, t.key == {_cel(STARTUP_TAINT_KEY)})"
    return [
        {
            "name": "becomes-a-member",
            "expression": f"({_selected('object', pools)}) && "
            f"(oldObject == null || !({_selected('oldObject', pools)}))",
        },
        {"name": "not-held-yet", "expression": f"!{has_taint}"},
        {
            "name": "not-a-kubelets-update",
            "expression": "request.operation == 'CREATE' || "
            "!request.userInfo.?groups.orValue([]).exists(g, g == 'system:nodes')",
        },
    ]


def _add_taint() -> str:
    """The CEL expression of a JSON patch that appends the startup taint to the node's taints."""
    fields = ", ".join(f"{key}: {_cel(value)}" for key, value in sorted(STARTUP_TAINT.items()))
    taint = f"Object.spec.taints{{{fields}}}"
    # Not one patch with a list of objects: API servers of 1.36 panic at that
    # (kubernetes/kubernetes #142181).
    return (
        "(has(object.spec.taints) ? [] : "
        '[JSONPatch{op: "add", path: "/spec/taints", value: []}]) + '
        f'[JSONPatch{{op: "add", path: "/spec/taints/-", value: {taint}}}]'
    )


def _selected(node: str, pools: Sequence[ExistingPoolPlan]) -> str:
    return " || ".join(f"({_has_all(node, pool.settings.select)})" for pool in pools)


def _has_all(node: str, labels: Mapping[str, str]) -> str:
    return " && ".join(
        f"{node}.metadata.?labels[?{_cel(key)}] == optional.of({_cel(value)})"
        for key, value in sorted(labels.items())
    )


def _cel(text: str) -> str:
    """A string literal of CEL, which has the escapes that json.dumps writes, but no surrogates.

    Source: CEL language definition, string and bytes values.
    """
    return json.dumps(text, ensure_ascii=False)
