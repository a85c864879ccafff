"""The chart's pre-upgrade hook: a Job that applies the CRDs, with the permissions it needs.

Source: NVIDIA/gpu-operator, deployments/gpu-operator/templates/upgrade_crd.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeapi import JsonObject
from rehearsal.plugins.charts.gpu_operator.values import VERSION, merged

_JOB: Final = "gpu-operator-upgrade-crd"
_ACCOUNT: Final = f"{_JOB}-hook-sa"
_ROLE: Final = f"{_JOB}-hook-role"


def before_upgrade(values: Mapping[str, Any], namespace: str) -> list[JsonObject]:
    """In the order of their weights; empty with operator.upgradeCRD=false."""
    operator = merged(values)["operator"]
    if not operator["upgradeCRD"]:
        return []
    rbac = "rbac.authorization.k8s.io"
    role = {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["create", "get", "list", "watch", "patch", "update"],
    }
    container = {
        "name": "upgrade-crd",
        "image": f"{operator['repository']}/{operator['image']}:{operator['version'] or VERSION}",
        "imagePullPolicy": operator["imagePullPolicy"],
        "command": ["/usr/bin/manage-crds"],
        "args": ["apply", "--filename=/opt/gpu-operator/"],
    }
    pod = {
        "serviceAccountName": _ACCOUNT,
        "tolerations": operator["tolerations"],
        "nodeSelector": {"kubernetes.io/os": "linux", **operator["nodeSelector"]},
        "containers": [container],
        "restartPolicy": "OnFailure",
    }
    return [
        _hook("v1", "ServiceAccount", _ACCOUNT, namespace=namespace),
        _hook(f"{rbac}/v1", "ClusterRole", _ROLE, rules=[role]),
        _hook(
            f"{rbac}/v1",
            "ClusterRoleBinding",
            f"{_JOB}-hook-binding",
            subjects=[{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": namespace}],
            roleRef={"kind": "ClusterRole", "name": _ROLE, "apiGroup": rbac},
        ),
        _hook(
            "batch/v1",
            "Job",
            _JOB,
            weight=1,
            namespace=namespace,
            spec={"template": {"metadata": {"name": _JOB}, "spec": pod}},
        ),
    ]


def _hook(
    api_version: str,
    kind: str,
    name: str,
    *,
    weight: int = 0,
    namespace: str | None = None,
    **body: Any,
) -> JsonObject:
    annotations = {
        "helm.sh/hook": "pre-upgrade",
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": "hook-succeeded,before-hook-creation",
    }
    metadata: JsonObject = {"name": name, "annotations": annotations}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
