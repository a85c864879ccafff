"""The admission policy that gives the startup taint to nodes that slicewright does not create.

A cloud's node pool registers its nodes with the taint. Without a node pool, the API server adds it
in the request that makes a node a member of a pool, so that no pod comes in between.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from apis.names import STARTUP_TAINT, STARTUP_TAINT_KEY
from infra.plan import ExistingPoolPlan
from infra.values.text import JsonObject

_NAME: Final = "slicewright-startup-taint"


def startup_policy(pools: Sequence[ExistingPoolPlan]) -> tuple[JsonObject, JsonObject]:
    """MutatingAdmissionPolicy and Binding: a node that becomes a member gets the startup taint.

    It does when it is created with the labels that a pool selects by, and when it gets them later:
    cloud controllers add labels to nodes that have registered already. Not by a kubelet's own
    update, because NodeRestriction refuses a kubelet whose update changes taints, and is asked
    again after a mutation. Members from before the policy are left alone.

    Kubernetes 1.36 and later (KEP-3962). It fails closed, as the other policies do; its
    expressions read every optional field as optional, so they have no error to fail with.
    """
    kept = f"object.?spec.?taints.orValue([]).exists(t, t.key == {_cel(STARTUP_TAINT_KEY)})"
    taint = ", ".join(f"{key}: {_cel(value)}" for key, value in sorted(STARTUP_TAINT.items()))
    value = f"Object.spec.taints{{{taint}}}"
    policy: JsonObject = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": _NAME},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["nodes"],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "becomes-a-member",
                    "expression": f"({_selected('object', pools)}) && "
                    f"(oldObject == null || !({_selected('oldObject', pools)}))",
                },
                {"name": "not-held-yet", "expression": f"!{kept}"},
                {
                    "name": "not-a-kubelets-update",
                    "expression": "request.operation == 'CREATE' || "
                    "!request.userInfo.?groups.orValue([]).exists(g, g == 'system:nodes')",
                },
            ],
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        # Not one patch with a list of objects: API servers of 1.36 panic at that
                        # (kubernetes/kubernetes #142181).
                        "expression": "(has(object.spec.taints) ? [] : "
                        '[JSONPatch{op: "add", path: "/spec/taints", value: []}]) + '
                        f'[JSONPatch{{op: "add", path: "/spec/taints/-", value: {value}}}]'
                    },
                }
            ],
        },
    }
    binding: JsonObject = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": _NAME},
        "spec": {"policyName": _NAME},
    }
    return policy, binding


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
