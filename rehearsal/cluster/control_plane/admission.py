"""The API server's admission configuration of a cloud that limits critical pods, as GKE does.

A pod of a critical priority class is admitted only in a namespace with a ResourceQuota for that
class. Sources: Kubernetes docs, resource quotas, limiting PriorityClass consumption by default;
for GKE, NVIDIA/gpu-operator #660 and admiraltyio/admiralty #124.
"""

from __future__ import annotations

import json
from typing import Final

CRITICAL_PRIORITY_CLASSES: Final = ("system-node-critical", "system-cluster-critical")
_API: Final = "apiserver.config.k8s.io/v1"


def critical_pods_need_quota() -> str:
    """The file for kube-apiserver's --admission-control-config-file, as JSON."""
    limited = {
        "resource": "pods",
        "matchScopes": [
            {
                "scopeName": "PriorityClass",
                "operator": "In",
                "values": list(CRITICAL_PRIORITY_CLASSES),
            }
        ],
    }
    quotas = {
        "apiVersion": _API,
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": [limited],
    }
    return json.dumps(
        {
            "apiVersion": _API,
            "kind": "AdmissionConfiguration",
            "plugins": [{"name": "ResourceQuota", "configuration": quotas}],
        },
        indent=1,
    )
