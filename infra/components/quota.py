"""A quota that lets pods of the critical priority classes into a namespace."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis import names


def critical_pods(
    name: str, namespace: pulumi.Input[str], child: pulumi.ResourceOptions
) -> k8s.core.v1.ResourceQuota:
    """GKE refuses pods of the critical priority classes in a namespace without such a quota.

    It limits nothing, like GKE's own quota in kube-system, and does no harm elsewhere.
    Source: Kubernetes docs, resource quotas, limiting PriorityClass consumption by default;
    NVIDIA/gpu-operator #660.
    """
    return k8s.core.v1.ResourceQuota(
        f"{name}-critical-pods",
        metadata=k8s.meta.v1.ObjectMetaArgs(name="critical-pods", namespace=namespace),
        spec=k8s.core.v1.ResourceQuotaSpecArgs(
            hard={"pods": "1G"},
            scope_selector=k8s.core.v1.ScopeSelectorArgs(
                match_expressions=[
                    k8s.core.v1.ScopedResourceSelectorRequirementArgs(
                        operator="In",
                        scope_name="PriorityClass",
                        values=[names.AGENT_PRIORITY_CLASS, names.CONTROLLER_PRIORITY_CLASS],
                    )
                ]
            ),
        ),
        opts=child,
    )
