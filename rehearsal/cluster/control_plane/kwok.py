"""kwok's configuration: it keeps nodes Ready and simulates the pods that have no process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from slicewright.kubeapi.client import JsonObject, path_of
from slicewright.rehearsal.cluster.control_plane.pki import KWOK
from slicewright.rehearsal.cluster.control_plane.process_images import Operands, pattern

_STAGES = Path(__file__).parent / "stages"
NODE_ANNOTATION = "kwok.x-k8s.io/node=fake"
"""Nodes that kwok manages carry this annotation."""
LEASE_S = 40
"""Seconds that a node's lease lasts, as the kubelet's; renewed every quarter of it."""


def stages(operands: Operands) -> str:
    """kwok's Stages as YAML documents; those for pods leave out images that run as processes."""
    documents: list[dict[str, Any]] = []
    for path in sorted(_STAGES.glob("*.yaml")):
        documents += [document for document in yaml.safe_load_all(path.read_text()) if document]
    for document in documents:
        if document["spec"]["resourceRef"]["kind"] == "Pod":
            document["spec"]["selector"]["matchExpressions"].append(_simulated_pods(operands))
    return yaml.safe_dump_all(documents, sort_keys=False, width=10_000)


def permissions() -> tuple[tuple[str, JsonObject], ...]:
    """A ClusterRole and its binding, each with its path.

    Source: sigs.k8s.io/kwok v0.8.0, kustomize/rbac/role.yaml, without its custom resources.
    """
    rules = [
        _rule("", ["events"], "create", "patch", "update"),
        _rule("", ["nodes"], "get", "list", "watch"),
        _rule("", ["nodes/status", "pods/status"], "patch", "update"),
        _rule("", ["pods"], "delete", "get", "list", "patch", "update", "watch"),
        _rule(
            *("coordination.k8s.io", ["leases"]),
            *("create", "get", "list", "patch", "update", "watch"),
        ),
    ]
    group = "rbac.authorization.k8s.io"
    version = {"apiVersion": f"{group}/v1", "metadata": {"name": KWOK}}
    role = {**version, "kind": "ClusterRole", "rules": rules}
    binding = {
        **version,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": KWOK},
        "subjects": [{"apiGroup": group, "kind": "User", "name": KWOK}],
    }
    return (
        (path_of(f"{group}/v1", "clusterroles", KWOK), role),
        (path_of(f"{group}/v1", "clusterrolebindings", KWOK), binding),
    )


def _rule(group: str, resources: Sequence[str], *verbs: str) -> JsonObject:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _simulated_pods(operands: Operands) -> dict[str, Any]:
    # A jq string literal has JSON's escapes, and kwok compares the boolean's name. A pod without an
    # image matches nothing.
    expression = json.dumps(pattern(operands))
    return {
        "jq": {
            "key": f'.spec.containers[0] | .image + " " + .name | test({expression})',
            "operator": "In",
            "values": ["false"],
        }
    }
