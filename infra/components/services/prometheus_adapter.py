"""An autoscaler for each scaled workload, and prometheus-adapter, unless the cluster has it.

The adapter has narrower rights than its chart would give it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.plan import FleetPlan

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
"""Maps a manifest's key to the argument of the resource."""
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
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """deployments: by workload. depends_on: the nodes that run the adapter."""
        super().__init__("slicewright:index:PrometheusAdapter", name, {}, opts)
        child = pulumi.ResourceOptions(
            parent=self, deleted_with=cluster, depends_on=list(depends_on)
        )
        adapter = _declare_in_order(name, manifests.adapter_objects(fleet), child)
        self.autoscalers = {
            workload.name: _declare(
                f"{name}-{workload.name}",
                manifests.pod_autoscaler(workload),
                pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[*(adapter or depends_on)[-1:], deployments[workload.name]],
                ),
            )
            for workload in fleet.deployments
            if workload.autoscaling is not None
        }
        self.register_outputs({})


def _declare_in_order(
    name: str, objects: Iterable[manifests.JsonObject], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Declares each object after the previous one, because each needs an earlier one."""
    declared: list[pulumi.Resource] = []
    for manifest in objects:
        options = pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=declared[-1:])
        )
        kind, object_name = manifest["kind"].lower(), manifest["metadata"]["name"]
        declared.append(_declare(f"{name}-{kind}-{object_name}", manifest, options))
    return declared


def _declare(
    name: str, manifest: manifests.JsonObject, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    kind = manifest["kind"]
    resource: pulumi.Resource
    if kind in _KINDS:
        inputs = {_INPUTS[key]: value for key, value in manifest.items() if key in _INPUTS}
        resource = _KINDS[kind](name, **inputs, opts=opts)
    else:
        resource = k8s.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=kind,
            metadata={**manifest["metadata"], "annotations": _READY},
            spec=manifest["spec"],
            opts=opts,
        )
    return resource
