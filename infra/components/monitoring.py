"""A fleet's monitoring: Prometheus if the stack installs it, and the objects that it selects.

Nothing of the fleet waits for it: a registry that does not answer must not keep GPUs from being
verified.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra import values
from infra.components.helm_release import helm_release
from infra.plan import FleetPlan
from infra.spec import ExistingPrometheus, ManagedPrometheus, PrometheusStack
from infra.values import JsonObject

_RELEASE_TIMEOUT_S = 600


class Monitoring(pulumi.ComponentResource):
    """Output: `ready`, resources that must exist before monitors for a Prometheus are created."""

    ready: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: FleetPlan,
        *,
        cluster: pulumi.Resource | None,
        after: Sequence[pulumi.Resource],
        scraped: Sequence[pulumi.Input[pulumi.Resource]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """fleet: with monitoring. after: the nodes that it runs on. scraped: the namespaces of the
        scraped pods. GKE's objects are in them.
        """
        super().__init__("slicewright:index:Monitoring", name, {}, opts)
        assert fleet.monitoring is not None
        self._name, self._cluster = name, cluster
        match fleet.monitoring.settings:
            case PrometheusStack() as asked:
                self.ready = [self._stack(fleet, asked, after)]
            case ExistingPrometheus():
                self.ready = self._kinds()
            case ManagedPrometheus():
                self.ready = []
        before = scraped if fleet.monitoring.managed else self.ready
        for one in values.monitoring_objects(fleet):
            self._object(one, before)
        self.register_outputs({})

    def _stack(
        self, fleet: FleetPlan, asked: PrometheusStack, after: Sequence[pulumi.Resource]
    ) -> pulumi.Resource:
        # With a volume it is taken down before the cluster: a disk that goes with the cluster would
        # stay behind, and be billed.
        gone_with = self._cluster if asked.storage is None else None
        namespace: pulumi.Input[str] = asked.namespace
        if asked.create_namespace:
            made = k8s.core.v1.Namespace(
                f"{self._name}-namespace",
                metadata=k8s.meta.v1.ObjectMetaArgs(
                    name=asked.namespace,
                    labels={
                        "pod-security.kubernetes.io/enforce": "baseline",
                        "pod-security.kubernetes.io/warn": "restricted",
                    },
                ),
                opts=pulumi.ResourceOptions(parent=self, deleted_with=gone_with),
            )
            namespace = made.metadata.name
        return helm_release(
            self._name,
            release=asked.release,
            namespace=namespace,
            address=values.monitoring_chart(asked),
            version=asked.chart_version,
            settings=values.monitoring_values(fleet),
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions(
                parent=self, deleted_with=gone_with, depends_on=list(after)
            ),
        )

    def _kinds(self) -> Sequence[pulumi.Resource]:
        """The Prometheus operator's kinds, read at every run, in a preview too: if one is missing,
        the run fails with this name before it makes any object of that kind.
        """
        return [
            k8s.apiextensions.v1.CustomResourceDefinition.get(
                f"the-prometheus-operator-must-be-installed-{kind}",
                f"{kind}.{values.OPERATOR_GROUP}",
                opts=pulumi.ResourceOptions(parent=self),
            )
            for kind in values.OPERATOR_KINDS
        ]

    def _object(self, one: JsonObject, before: Sequence[pulumi.Input[pulumi.Resource]]) -> None:
        metadata = one["metadata"]
        name = f"{self._name}-{one['kind'].lower()}-{metadata['name']}"
        opts = pulumi.ResourceOptions(
            parent=self, deleted_with=self._cluster, depends_on=list(before)
        )
        if one["kind"] == "ConfigMap":
            k8s.core.v1.ConfigMap(name, metadata=metadata, data=one["data"], opts=opts)
            return
        k8s.apiextensions.CustomResource(
            name,
            api_version=one["apiVersion"],
            kind=one["kind"],
            metadata=metadata,
            spec=one["spec"],
            opts=opts,
        )
