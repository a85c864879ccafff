"""The rights inside the cluster that previews need: to read the program's objects, but no Secret.

`slicewright.infra.manifests.rights.policies` has a preview's rights in the account.
"""

from __future__ import annotations

from typing import Final

from slicewright.apis.names import CLUSTER_POLICY_PLURAL, GROUP, POOL_PLURAL, REPORT_PLURAL
from slicewright.infra.manifests.text import JsonObject

PREVIEW_ROLE: Final = "slicewright-preview"
"""The name of the ClusterRole, its binding, and the group that has it."""
_RBAC: Final = "rbac.authorization.k8s.io"
_PROGRAM_KINDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "",
        (
            *("configmaps", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
            *("resourcequotas", "serviceaccounts", "services"),
        ),
    ),
    (
        "admissionregistration.k8s.io",
        (
            *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
            *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ),
    ),
    ("apiextensions.k8s.io", ("customresourcedefinitions",)),
    ("apiregistration.k8s.io", ("apiservices",)),
    ("apps", ("daemonsets", "deployments")),
    ("cert-manager.io", ("certificates", "issuers")),
    ("keda.sh", ("scaledobjects",)),
    ("karpenter.k8s.aws", ("ec2nodeclasses",)),
    ("karpenter.sh", ("nodeoverlays", "nodepools")),
    ("monitoring.coreos.com", ("podmonitors", "prometheusrules")),
    ("monitoring.googleapis.com", ("clusterrules", "podmonitorings")),
    ("networking.gke.io", ("gkenetworkparamsets", "networks")),
    ("networking.k8s.io", ("networkpolicies",)),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("policy", ("poddisruptionbudgets",)),
    (_RBAC, ("clusterrolebindings", "clusterroles", "rolebindings", "roles")),
)
"""API groups, and plurals of the objects that the program creates, or reads by name."""
_LISTED_KINDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("", ("nodes", "pods")),
    ("policy", ("poddisruptionbudgets",)),
    (GROUP, (POOL_PLURAL, REPORT_PLURAL)),
)
"""Kinds that `preview-report --live`, `drift` and `status` list."""
_HEALTH_KINDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("", ("endpoints", "persistentvolumeclaims")),
    ("apps", ("replicasets",)),
    ("discovery.k8s.io", ("endpointslices",)),
)
"""Kinds that a refresh reads to see whether Deployments and Services are healthy. Source:
pulumi/pulumi-kubernetes, provider/pkg/await, deployment.go and service.go.
"""


def preview_role() -> JsonObject:
    """A ClusterRole, and its binding to the group of the same name, as `kubectl apply` takes it."""
    metadata = {"name": PREVIEW_ROLE}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "ClusterRole",
                "metadata": metadata,
                "rules": _rules(),
            },
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": PREVIEW_ROLE},
                "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": PREVIEW_ROLE}],
            },
        ],
    }


def _rules() -> list[JsonObject]:
    reads = [*((group, kinds, ["get"]) for group, kinds in _PROGRAM_KINDS)]
    reads.append(("nvidia.com", (CLUSTER_POLICY_PLURAL,), ["get"]))
    reads += [(group, kinds, ["get", "list"]) for group, kinds in (*_LISTED_KINDS, *_HEALTH_KINDS)]
    return [
        {"apiGroups": [group], "resources": list(kinds), "verbs": verbs}
        for group, kinds, verbs in reads
    ]
