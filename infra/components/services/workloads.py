"""Workloads that serve models: namespaces, and each workload's objects, in order.

Nothing here is `deleted_with` the cluster: the cloud would keep load balancers and disks, and bill
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.manifests import JsonObject
from slicewright.infra.plan import FleetPlan

_SERVICE_MINUTES = 10
"""A cloud's load balancer takes some minutes."""
_PARTS: Mapping[str, str] = {
    "ServiceAccount": "account",
    "PodDisruptionBudget": "budget",
    "PersistentVolume": "volume",
    "PersistentVolumeClaim": "claim",
}
"""Maps a kind to the end of the resource's name."""
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
"""Maps a manifest's key to the argument of the resource."""


class Workloads(pulumi.ComponentResource):
    """Outputs: `deployments` by name, and the `namespaces` that the stack creates."""

    deployments: Mapping[str, pulumi.Resource]
    namespaces: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: FleetPlan,
        *,
        depends_on: Mapping[str, Sequence[pulumi.Input[pulumi.Resource]]],
        system: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """depends_on: by pool, the verified pool. system: nodes without GPUs. `destroy` deletes
        them after the namespaces: Kubernetes removes a namespace only while every aggregated API
        answers, such as the API of KEDA's pods on these nodes.
        """
        super().__init__("slicewright:index:Workloads", name, {}, opts)
        namespaces = self._create_namespaces(name, fleet, system)
        self.namespaces = list(namespaces.values())
        self.deployments = {
            plan.name: self._workload(
                f"{name}-{plan.name}",
                objects,
                [namespaces[plan.namespace]] if plan.namespace in namespaces else [],
                depends_on[plan.workload.pool],
                scaled=plan.autoscaling is not None,
            )
            for plan, objects in manifests.workloads_of(fleet)
        }
        self.register_outputs({})

    def _create_namespaces(
        self, name: str, fleet: FleetPlan, system: Sequence[pulumi.Resource]
    ) -> Mapping[str, pulumi.Resource]:
        return {
            manifest["metadata"]["name"]: _declare(
                f"{name}-namespace-{manifest['metadata']['name']}",
                manifest,
                pulumi.ResourceOptions(parent=self, depends_on=list(system)),
            )
            for manifest in manifests.workload_namespaces(fleet)
        }

    def _workload(
        self,
        name: str,
        objects: manifests.WorkloadObjects,
        namespace: Sequence[pulumi.Resource],
        verified: Sequence[pulumi.Input[pulumi.Resource]],
        *,
        scaled: bool,
    ) -> pulumi.Resource:
        prerequisites = [
            _declare(
                f"{name}-{_PARTS[manifest['kind']]}",
                manifest,
                pulumi.ResourceOptions(parent=self, depends_on=[*namespace]),
            )
            for manifest in objects.before
        ]
        options = pulumi.ResourceOptions(depends_on=[*namespace, *prerequisites, *verified])
        deployment = self._deployment(name, objects, options, scaled=scaled)
        if objects.service is not None:
            self._service(f"{name}-service", objects.service, deployment)
        return deployment

    def _deployment(
        self,
        name: str,
        objects: manifests.WorkloadObjects,
        options: pulumi.ResourceOptions,
        *,
        scaled: bool,
    ) -> pulumi.Resource:
        deployment_options = pulumi.ResourceOptions(
            parent=self,
            custom_timeouts=pulumi.CustomTimeouts(
                create=f"{objects.start_minutes}m", update=f"{objects.update_minutes}m"
            ),
            # The autoscaler sets the replicas. The field is stated all the same: without it, a
            # workload of sixteen replicas would fall back to one, Kubernetes' default, when
            # autoscaling is turned on.
            ignore_changes=["spec.replicas"] if scaled else None,
        )
        return _declare(
            name, objects.deployment, pulumi.ResourceOptions.merge(options, deployment_options)
        )

    def _service(self, name: str, manifest: JsonObject, deployment: pulumi.Resource) -> None:
        timeout = f"{_SERVICE_MINUTES}m"
        _declare(
            name,
            manifest,
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[deployment],
                custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
            ),
        )


def _declare(name: str, manifest: JsonObject, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    kind = manifest["kind"]
    inputs = {_INPUTS[key]: value for key, value in manifest.items() if key in _INPUTS}
    resource: pulumi.Resource = _KINDS[kind](name, **inputs, opts=opts)
    return resource
