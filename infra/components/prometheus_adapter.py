"""prometheus-adapter with its narrow rights, unless the cluster has one, and an autoscaler for each
workload that is scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from infra import values
from infra.plan import FleetPlan

_KINDS: Final[Mapping[str, Callable[..., Any]]] = {
    "APIService": k8s.apiregistration.v1.APIService,
    "ClusterRole": k8s.rbac.v1.ClusterRole,
    "ClusterRoleBinding": k8s.rbac.v1.ClusterRoleBinding,
    "ConfigMap": k8s.core.v1.ConfigMap,
    "Deployment": k8s.apps.v1.Deployment,
    "HorizontalPodAutoscaler": k8s.autoscaling.v2.HorizontalPodAutoscaler,
    "Namespace": k8s.core.v1.Namespace,
    "RoleBinding": k8s.rbac.v1.RoleBinding,
    "Service": k8s.core.v1.Service,
    "ServiceAccount": k8s.core.v1.ServiceAccount,
}
_INPUTS: Final[Mapping[str, str]] = {
    "roleRef": "role_ref",
    **{key: key for key in ("metadata", "spec", "data", "immutable", "rules", "subjects")},
}
"""Key of a manifest -> the argument that has it."""
_READY: Final = {"pulumi.com/waitFor": "condition=Ready"}


class PrometheusAdapter(pulumi.ComponentResource):
    """Output: `autoscalers` by workload."""

    autoscalers: Mapping[str, pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: FleetPlan,
        *,
        deployments: Mapping[str, pulumi.Resource],
        cluster: pulumi.Resource | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """deployments: by workload. after: the nodes that run the adapter."""
        super().__init__("slicewright:index:PrometheusAdapter", name, {}, opts)
        made: list[pulumi.Resource] = list(after)
        for manifest in values.adapter_objects(fleet):
            # One after the other: each needs one that is made before it.
            child = pulumi.ResourceOptions(
                parent=self, deleted_with=cluster, depends_on=[*after, *made[-1:]]
            )
            kind, own = manifest["kind"].lower(), manifest["metadata"]["name"]
            made.append(_declare(f"{name}-{kind}-{own}", manifest, child))
        self.autoscalers = {
            one.name: _declare(
                f"{name}-{one.name}",
                values.pod_autoscaler(one),
                pulumi.ResourceOptions(parent=self, depends_on=[*made[-1:], deployments[one.name]]),
            )
            for one in fleet.deployments
            if one.autoscaling is not None
        }
        self.register_outputs({})


def _declare(
    name: str, manifest: values.JsonObject, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    kind = manifest["kind"]
    made: pulumi.Resource
    if kind in _KINDS:
        inputs = {_INPUTS[key]: value for key, value in manifest.items() if key in _INPUTS}
        made = _KINDS[kind](name, **inputs, opts=opts)
    else:
        made = k8s.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=kind,
            metadata={**manifest["metadata"], "annotations": _READY},
            spec=manifest["spec"],
            opts=opts,
        )
    return made
