"""What a cluster that has cert-manager has of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from slicewright.kubeapi import JsonObject

_CRDS: Final = Path(__file__).parent / "crds"
_NAMESPACE: Final = "cert-manager"
_NAME: Final = "cert-manager"
_IMAGE: Final = "quay.io/jetstack/cert-manager-controller:v1.19.1"
_RBAC: Final = "rbac.authorization.k8s.io"


def crds() -> list[JsonObject]:
    return [json.loads(file.read_text()) for file in sorted(_CRDS.glob("*.json"))]


def objects() -> list[JsonObject]:
    """All but the CRDs, in the order in which they are made."""
    labels = {"app.kubernetes.io/name": _NAME}
    own = {"name": _NAME, "namespace": _NAMESPACE, "labels": labels}
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": _NAMESPACE}
    pod = {
        "serviceAccountName": _NAME,
        "containers": [{"name": "cert-manager-controller", "image": _IMAGE}],
        # As of much that clusters have: it may be where nothing else may be yet.
        "tolerations": [{"operator": "Exists"}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": _NAME},
            "rules": [
                _rule("cert-manager.io", ["certificates", "issuers"], "get", "list", "watch"),
                _rule("cert-manager.io", ["certificates/status", "issuers/status"], "patch"),
                _rule("", ["secrets"], "get", "create", "patch"),
                _rule("apiregistration.k8s.io", ["apiservices"], "get", "list", "patch"),
            ],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _NAME},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _NAME},
            "subjects": [subject],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": own,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


def _rule(group: str, resources: list[str], *verbs: str) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
