"""The chart's hooks: Jobs with the permissions that they need.

Before an upgrade one applies the CRDs; after an uninstall one of NFD's, which is part of the chart,
removes NFD's labels from the nodes. Sources: NVIDIA/gpu-operator,
deployments/gpu-operator/templates/upgrade_crd.yaml; kubernetes-sigs/node-feature-discovery,
deployment/helm/node-feature-discovery/templates/post-delete-job.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts.gpu_operator.feature_discovery import full_name, image
from slicewright.rehearsal.plugins.charts.gpu_operator.values import VERSION, merged

_JOB: Final = "gpu-operator-upgrade-crd"
_ACCOUNT: Final = f"{_JOB}-hook-sa"
_ROLE: Final = f"{_JOB}-hook-role"
_NFD: Final = "node-feature-discovery"
_RBAC: Final = "rbac.authorization.k8s.io"


def before_upgrade(values: Mapping[str, Any], namespace: str) -> list[JsonObject]:
    """In the order of their weights; empty with operator.upgradeCRD=false."""
    operator = merged(values)["operator"]
    if not operator["upgradeCRD"]:
        return []
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
        _hook(f"{_RBAC}/v1", "ClusterRole", _ROLE, rules=[role]),
        _hook(
            f"{_RBAC}/v1",
            "ClusterRoleBinding",
            f"{_JOB}-hook-binding",
            subjects=[{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": namespace}],
            roleRef={"kind": "ClusterRole", "name": _ROLE, "apiGroup": _RBAC},
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


def after_delete(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """In the order of Helm's; empty without NFD, or with its postDeleteCleanup=false."""
    full = merged(values)
    nfd = full[_NFD]
    if not (full["nfd"]["enabled"] and nfd["postDeleteCleanup"]):
        return []
    name = f"{full_name(full, release)}-prune"
    role = {
        "apiGroups": [""],
        "resources": ["nodes", "nodes/status"],
        "verbs": ["get", "patch", "update", "list"],
    }
    container = {
        "name": "nfd-master",
        "image": image(full),
        "command": ["nfd-master"],
        "args": ["-prune"],
    }
    pod = {
        "serviceAccountName": name,
        "containers": [container],
        "restartPolicy": "Never",
        "nodeSelector": nfd["master"]["nodeSelector"],
        "tolerations": nfd["master"]["tolerations"],
    }
    return [
        _hook("v1", "ServiceAccount", name, when="post-delete", namespace=namespace),
        _hook(f"{_RBAC}/v1", "ClusterRole", name, when="post-delete", rules=[role]),
        _hook(
            f"{_RBAC}/v1",
            "ClusterRoleBinding",
            name,
            when="post-delete",
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            roleRef={"kind": "ClusterRole", "name": name, "apiGroup": _RBAC},
        ),
        _hook(
            "batch/v1",
            "Job",
            name,
            when="post-delete",
            namespace=namespace,
            spec={"template": {"metadata": {"labels": {"role": "prune"}}, "spec": pod}},
        ),
    ]


def _hook(
    api_version: str,
    kind: str,
    name: str,
    *,
    when: str = "pre-upgrade",
    weight: int = 0,
    namespace: str | None = None,
    **body: Any,
) -> JsonObject:
    annotations = {
        "helm.sh/hook": when,
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": "hook-succeeded,before-hook-creation",
    }
    metadata: JsonObject = {"name": name, "annotations": annotations}
    if when == "post-delete":
        metadata["labels"] = {"app.kubernetes.io/name": _NFD}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
