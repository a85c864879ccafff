"""API versions that Kubernetes has removed, and their replacements.

Source: kubernetes.io, Deprecated API Migration Guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REMOVED: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("extensions/v1beta1", "DaemonSet"): ("1.16", "apps/v1/DaemonSet"),
    ("extensions/v1beta1", "Deployment"): ("1.16", "apps/v1/Deployment"),
    ("extensions/v1beta1", "Ingress"): ("1.22", "networking.k8s.io/v1/Ingress"),
    ("apps/v1beta1", "Deployment"): ("1.16", "apps/v1/Deployment"),
    ("apps/v1beta2", "DaemonSet"): ("1.16", "apps/v1/DaemonSet"),
    ("apps/v1beta2", "Deployment"): ("1.16", "apps/v1/Deployment"),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"): (
        "1.22",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
    ),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRole"): (
        "1.22",
        "rbac.authorization.k8s.io/v1/ClusterRole",
    ),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding"): (
        "1.22",
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
    ),
    ("rbac.authorization.k8s.io/v1beta1", "Role"): ("1.22", "rbac.authorization.k8s.io/v1/Role"),
    ("rbac.authorization.k8s.io/v1beta1", "RoleBinding"): (
        "1.22",
        "rbac.authorization.k8s.io/v1/RoleBinding",
    ),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"): ("1.22", "scheduling.k8s.io/v1/PriorityClass"),
    ("batch/v1beta1", "CronJob"): ("1.25", "batch/v1/CronJob"),
    ("policy/v1beta1", "PodDisruptionBudget"): ("1.25", "policy/v1/PodDisruptionBudget"),
    ("node.k8s.io/v1beta1", "RuntimeClass"): ("1.25", "node.k8s.io/v1/RuntimeClass"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"): (
        "1.26",
        "autoscaling/v2/HorizontalPodAutoscaler",
    ),
}


def warning(api_version: str, kind: str) -> str | None:
    """The warning for a removed API; None for a current one."""
    entry = _REMOVED.get((api_version, kind))
    if entry is None:
        return None
    return (
        f'apiVersion "{api_version}/{kind}" was removed in Kubernetes {entry[0]}. Use '
        f'"{entry[1]}" instead.'
    )
