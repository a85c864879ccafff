"""Karpenter in a new EKS cluster: its charts, and the pools whose nodes it creates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.components.helm_release import helm_release
from slicewright.infra.plan import EksFleetPlan, EksPoolPlan, KarpenterPlan

_RELEASE_TIMEOUT_S = 300
_READY_MINUTES = 10
_DRAIN_MINUTES = 60
"""The time that `destroy` gives Karpenter to drain a pool's nodes and terminate them."""
_READY = {"pulumi.com/waitFor": "condition=Ready"}
_DRAINED = {
    # A NodePool's NodeClaims are its dependents, and each stays until its instance has terminated.
    # Without this, the NodePool and then Karpenter would be gone at once, while instances run on.
    "pulumi.com/deletionPropagationPolicy": "foreground",
}


@dataclass(frozen=True, kw_only=True)
class NodeClassInputs:
    """The inputs of the node classes of Karpenter's pools."""

    role: pulumi.Input[str]
    """Name of the nodes' role."""
    subnet_ids: Mapping[str, Sequence[pulumi.Input[str]]]
    """IDs by zone."""
    security_group: pulumi.Input[str]
    """ID of the cluster's security group."""


class Karpenter(pulumi.ComponentResource):
    """Output: `pools` by name: the NodePool that creates the pool's nodes."""

    pools: Mapping[str, pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: EksFleetPlan,
        *,
        node_class_inputs: NodeClassInputs,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """fleet: a fleet with Karpenter. depends_on: the node for Karpenter's pod, the resources
        that give it its role, and the resources that must outlive its nodes.
        """
        super().__init__("slicewright:index:Karpenter", name, {}, opts)
        assert isinstance(fleet.cluster.autoscaler, KarpenterPlan)
        self._name, self._plan = name, fleet.cluster.autoscaler
        self._node_class_inputs = node_class_inputs
        # The releases leave nothing behind in the account, so they are deleted with the cluster.
        controller = self._install(
            fleet,
            pulumi.ResourceOptions(parent=self, deleted_with=cluster, depends_on=list(depends_on)),
        )
        self.pools = {
            pool.name: self._pool(pool, [controller, *depends_on]) for pool in fleet.karpenter_pools
        }
        self.register_outputs({})

    def _install(self, fleet: EksFleetPlan, opts: pulumi.ResourceOptions) -> k8s.helm.v3.Release:
        crds = self._release(manifests.KARPENTER_CRDS, {}, opts)
        return self._release(
            manifests.KARPENTER_NAME,
            manifests.karpenter_values(fleet),
            pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[crds])),
        )

    def _release(
        self, chart: str, settings: manifests.JsonObject, opts: pulumi.ResourceOptions
    ) -> k8s.helm.v3.Release:
        return helm_release(
            chart,
            release=chart,
            namespace=manifests.KARPENTER_NAMESPACE,
            address=(manifests.karpenter_chart(self._plan, chart), None),
            version=self._plan.chart_version,
            settings=settings,
            # The CRDs have a release of their own, which upgrades them.
            skip_crds=True,
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=opts,
        )

    def _pool(self, pool: EksPoolPlan, depends_on: Sequence[pulumi.Resource]) -> pulumi.Resource:
        """Declares the pool's objects. They are deleted even if the cluster is deleted too: only
        Karpenter terminates the instances, which would otherwise stay.
        """
        prerequisites = [self._node_class(pool, depends_on)]
        if (overlay := manifests.node_overlay(pool)) is not None:
            # Without the overlay, the NodePool would offer no partitions at first.
            prerequisites.append(
                self._object(
                    pool.name, manifests.OVERLAY_API, "NodeOverlay", overlay, {}, depends_on
                )
            )
        return self._object(
            pool.name,
            manifests.NODE_API,
            "NodePool",
            manifests.node_pool(pool, self._plan),
            {**_READY, **_DRAINED},
            [*depends_on, *prerequisites],
        )

    def _node_class(
        self, pool: EksPoolPlan, depends_on: Sequence[pulumi.Resource]
    ) -> pulumi.Resource:
        inputs = self._node_class_inputs
        node_class = manifests.node_class(
            pool,
            role=inputs.role,
            subnet_ids=[
                subnet for zone in pool.settings.zones for subnet in inputs.subnet_ids[zone]
            ],
            security_group=inputs.security_group,
        )
        return self._object(
            pool.name, manifests.CLASS_API, "EC2NodeClass", node_class, _READY, depends_on
        )

    def _object(
        self,
        pool: str,
        api_version: str,
        kind: str,
        spec: manifests.JsonObject,
        annotations: Mapping[str, str],
        depends_on: Sequence[pulumi.Resource],
    ) -> pulumi.Resource:
        resource: pulumi.Resource = k8s.apiextensions.CustomResource(
            f"{self._name}-{pool}-{kind.lower()}",
            api_version=api_version,
            kind=kind,
            # The API server drops an empty map, and every `up` would write it again.
            metadata={"name": pool, **({"annotations": dict(annotations)} if annotations else {})},
            spec=spec,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(depends_on),
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{_READY_MINUTES}m",
                    update=f"{_READY_MINUTES}m",
                    delete=f"{_DRAIN_MINUTES}m",
                ),
                # Its name is fixed.
                delete_before_replace=True,
            ),
        )
        return resource
