"""Workloads that serve models: namespaces, and each workload's objects, in order.

Nothing here is `deleted_with` the cluster: a load balancer or a disk that is deleted with it by the
cloud would stay behind, and be billed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra import values
from infra.plan import FleetPlan
from infra.values import JsonObject

_SERVICE_MINUTES = 10
"""A cloud's load balancer takes some minutes."""
_PARTS: Mapping[str, str] = {
    "ServiceAccount": "account",
    "PodDisruptionBudget": "budget",
    "PersistentVolume": "volume",
    "PersistentVolumeClaim": "claim",
}
"""Kind -> the end of the resource's name."""
_KINDS: Mapping[str, Callable[..., Any]] = {
    "Namespace": k8s.core.v1.Namespace,
    "ServiceAccount": k8s.core.v1.ServiceAccount,
    "PersistentVolume": k8s.core.v1.PersistentVolume,
    "PersistentVolumeClaim": k8s.core.v1.PersistentVolumeClaim,
    "PodDisruptionBudget": k8s.policy.v1.PodDisruptionBudget,
    "Deployment": k8s.apps.v1.Deployment,
    "Service": k8s.core.v1.Service,
}
_INPUTS: Mapping[str, str] = {
    "metadata": "metadata",
    "spec": "spec",
    "automountServiceAccountToken": "automount_service_account_token",
}
"""Key of a manifest -> the argument that has it."""


class Workloads(pulumi.ComponentResource):
    """Outputs: `deployments` by name, and the `namespaces` that the stack makes."""

    deployments: Mapping[str, pulumi.Resource]
    namespaces: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: FleetPlan,
        *,
        after: Mapping[str, Sequence[pulumi.Input[pulumi.Resource]]],
        system: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """after: by pool, verified nodes, which its pods need. system: nodes without GPUs. They are
        deleted after the namespaces: Kubernetes ends a namespace only while every aggregated API
        answers, such as the API of KEDA's pods on these nodes.
        """
        super().__init__("slicewright:index:Workloads", name, {}, opts)
        namespaces = {
            made["metadata"]["name"]: _declare(
                f"{name}-namespace-{made['metadata']['name']}",
                made,
                pulumi.ResourceOptions(parent=self, depends_on=list(system)),
            )
            for made in values.workload_namespaces(fleet)
        }
        self.namespaces = list(namespaces.values())
        self.deployments = {
            plan.name: self._workload(
                f"{name}-{plan.name}",
                objects,
                [namespaces[plan.namespace]] if plan.namespace in namespaces else [],
                after[plan.workload.pool],
                scaled=plan.autoscaling is not None,
            )
            for plan, objects in values.workloads_of(fleet)
        }
        self.register_outputs({})

    def _workload(
        self,
        name: str,
        objects: values.WorkloadObjects,
        namespace: Sequence[pulumi.Resource],
        verified: Sequence[pulumi.Input[pulumi.Resource]],
        *,
        scaled: bool,
    ) -> pulumi.Resource:
        before = [
            _declare(
                f"{name}-{_PARTS[one['kind']]}",
                one,
                pulumi.ResourceOptions(parent=self, depends_on=[*namespace]),
            )
            for one in objects.before
        ]
        deployment = _declare(
            name,
            objects.deployment,
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[*namespace, *before, *verified],
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{objects.start_minutes}m", update=f"{objects.update_minutes}m"
                ),
                # The autoscaler then sets the replicas. The field is stated all the same: otherwise
                # a workload of sixteen replicas would fall back to Kubernetes' default of one when
                # autoscaling is turned on.
                ignore_changes=["spec.replicas"] if scaled else None,
            ),
        )
        if objects.service is not None:
            timeout = f"{_SERVICE_MINUTES}m"
            _declare(
                f"{name}-service",
                objects.service,
                pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[deployment],
                    custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
                ),
            )
        return deployment


def _declare(name: str, manifest: JsonObject, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    kind = manifest["kind"]
    inputs = {_INPUTS[key]: value for key, value in manifest.items() if key in _INPUTS}
    made: pulumi.Resource = _KINDS[kind](name, **inputs, opts=opts)
    return made
