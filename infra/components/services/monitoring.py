"""A fleet's monitoring: Prometheus, if the stack installs it, and the objects that it selects.

No other resource waits for monitoring: GPUs are verified even if a registry of images is down.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.components.helm_release import helm_release
from slicewright.infra.manifests import JsonObject
from slicewright.infra.plan import FleetPlan
from slicewright.infra.stack_file import ExistingPrometheus, ManagedPrometheus, PrometheusStack

_RELEASE_TIMEOUT_S = 600


class Monitoring(pulumi.ComponentResource):
    """Output: `ready`, resources that must exist before the monitors are created."""

    ready: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: FleetPlan,
        *,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
        scraped: Sequence[pulumi.Input[pulumi.Resource]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """fleet: a fleet with monitoring. depends_on: the nodes for its pods. scraped: resources of
        the scraped pods' namespaces. The monitors of GKE's managed Prometheus are in them.
        """
        super().__init__("slicewright:index:Monitoring", name, {}, opts)
        assert fleet.monitoring is not None
        self._name, self._cluster = name, cluster
        match fleet.monitoring.settings:
            case PrometheusStack() as prometheus:
                self.ready = [self._stack(fleet, prometheus, depends_on)]
            case ExistingPrometheus():
                self.ready = self._kinds()
            case ManagedPrometheus():
                self.ready = []
        prerequisites = scraped if fleet.monitoring.managed else self.ready
        for manifest in manifests.monitoring_objects(fleet):
            self._object(manifest, prerequisites)
        self.register_outputs({})

    def _stack(
        self, fleet: FleetPlan, prometheus: PrometheusStack, depends_on: Sequence[pulumi.Resource]
    ) -> pulumi.Resource:
        # A release with a volume is deleted before the cluster. If it were deleted with it, the
        # cloud would keep the disk and bill it.
        deleted_with = self._cluster if prometheus.storage is None else None
        child = pulumi.ResourceOptions(parent=self, deleted_with=deleted_with)
        namespace: pulumi.Input[str] = prometheus.namespace
        if prometheus.create_namespace:
            namespace = self._namespace(prometheus.namespace, child)
        return helm_release(
            self._name,
            release=prometheus.release,
            namespace=namespace,
            address=manifests.monitoring_chart(prometheus),
            version=prometheus.chart_version,
            settings=manifests.monitoring_values(fleet),
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions.merge(
                child, pulumi.ResourceOptions(depends_on=list(depends_on))
            ),
        )

    def _namespace(self, object_name: str, child: pulumi.ResourceOptions) -> pulumi.Output[str]:
        """Creates the namespace. Returns its name."""
        namespace = k8s.core.v1.Namespace(
            f"{self._name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=object_name,
                labels={
                    "pod-security.kubernetes.io/enforce": "baseline",
                    "pod-security.kubernetes.io/warn": "restricted",
                },
            ),
            opts=child,
        )
        namespace_name: pulumi.Output[str] = namespace.metadata.name
        return namespace_name

    def _kinds(self) -> Sequence[pulumi.Resource]:
        """The CRDs of the Prometheus operator, read at every run and in a preview too.

        If one is missing, the run fails with the name of this resource, before it creates objects.
        """
        return [
            k8s.apiextensions.v1.CustomResourceDefinition.get(
                f"the-prometheus-operator-must-be-installed-{kind}",
                f"{kind}.{manifests.OPERATOR_GROUP}",
                opts=pulumi.ResourceOptions(parent=self),
            )
            for kind in manifests.OPERATOR_KINDS
        ]

    def _object(
        self, manifest: JsonObject, depends_on: Sequence[pulumi.Input[pulumi.Resource]]
    ) -> None:
        metadata = manifest["metadata"]
        name = f"{self._name}-{manifest['kind'].lower()}-{metadata['name']}"
        opts = pulumi.ResourceOptions(
            parent=self, deleted_with=self._cluster, depends_on=list(depends_on)
        )
        if manifest["kind"] == "ConfigMap":
            k8s.core.v1.ConfigMap(name, metadata=metadata, data=manifest["data"], opts=opts)
            return
        k8s.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=metadata,
            spec=manifest["spec"],
            opts=opts,
        )
