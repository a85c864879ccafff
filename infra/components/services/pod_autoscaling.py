"""A pinned KEDA, and a ScaledObject for each scaled workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.components.helm_release import helm_release
from slicewright.infra.plan import FleetPlan, KedaPlan

_RELEASE_TIMEOUT_S: Final = 300
_READY_MINUTES: Final = 5
_READY: Final = {"pulumi.com/waitFor": "condition=Ready"}
"""Ready: KEDA has created the HorizontalPodAutoscaler."""


class PodAutoscaling(pulumi.ComponentResource):
    """Output: `scaled_objects` by workload."""

    scaled_objects: Mapping[str, pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: FleetPlan,
        plan: KedaPlan,
        *,
        deployments: Mapping[str, pulumi.Resource],
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """deployments: by workload. depends_on: the nodes that run KEDA, and the namespaces that it
        watches.
        """
        super().__init__("slicewright:index:PodAutoscaling", name, {}, opts)
        keda = [] if plan.existing else [self._release(name, fleet, plan, cluster, depends_on)]
        # KEDA is deleted after the ScaledObjects, because it removes their finalizer.
        self.scaled_objects = {
            workload.name: self._scaled_object(
                f"{name}-{workload.name}",
                manifests.scaled_object(workload, plan.prometheus_url),
                [*keda, deployments[workload.name]],
            )
            for workload in fleet.deployments
            if workload.autoscaling is not None
        }
        self.register_outputs({})

    def _release(
        self,
        name: str,
        fleet: FleetPlan,
        plan: KedaPlan,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
    ) -> pulumi.Resource:
        child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=plan.namespace, labels={"pod-security.kubernetes.io/enforce": "restricted"}
            ),
            opts=child,
        )
        return helm_release(
            f"{name}-keda",
            release=plan.release,
            namespace=namespace.metadata.name,
            address=manifests.keda_chart(fleet),
            version=plan.chart_version,
            settings=manifests.keda_values(fleet),
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions.merge(
                child, pulumi.ResourceOptions(depends_on=list(depends_on))
            ),
        )

    def _scaled_object(
        self, name: str, manifest: manifests.JsonObject, depends_on: Sequence[pulumi.Resource]
    ) -> pulumi.Resource:
        minutes = f"{_READY_MINUTES}m"
        scaled_object: pulumi.Resource = k8s.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata={**manifest["metadata"], "annotations": _READY},
            spec=manifest["spec"],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(depends_on),
                custom_timeouts=pulumi.CustomTimeouts(
                    create=minutes, update=minutes, delete=minutes
                ),
            ),
        )
        return scaled_object
