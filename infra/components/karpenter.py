"""Karpenter in a new EKS cluster: its charts, and the pools whose nodes it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from infra import values
from infra.components.helm_release import helm_release
from infra.plan import EksFleetPlan, EksPoolPlan, KarpenterPlan

_RELEASE_TIMEOUT_S = 300
_READY_MINUTES = 10
_DRAIN_MINUTES = 60
"""How long `destroy` waits for Karpenter to drain and end a pool's nodes."""
_READY = {"pulumi.com/waitFor": "condition=Ready"}
_DRAINED = {
    # A NodePool's NodeClaims are its dependants, and each stays until its instance has ended:
    # without it the NodePool would be gone at once, and Karpenter after it, while instances run on.
    "pulumi.com/deletionPropagationPolicy": "foreground",
}


@dataclass(frozen=True, kw_only=True)
class NodeMakings:
    """The inputs for the nodes of Karpenter's pools."""

    role: pulumi.Input[str]
    """Name of the nodes' role."""
    subnet_ids: Mapping[str, Sequence[pulumi.Input[str]]]
    """IDs by zone."""
    security_group: pulumi.Input[str]
    """ID of the cluster's."""


class Karpenter(pulumi.ComponentResource):
    """Output: `pools` by name, the resource that makes the nodes of each pool."""

    pools: Mapping[str, pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: EksFleetPlan,
        *,
        makings: NodeMakings,
        cluster: pulumi.Resource | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """fleet: with Karpenter. after: the node that it runs on, the resources that give it its
        role, and the resources that must outlive its nodes.
        """
        super().__init__("slicewright:index:Karpenter", name, {}, opts)
        assert isinstance(fleet.cluster.autoscaler, KarpenterPlan)
        self._name, self._plan, self._makings = name, fleet.cluster.autoscaler, makings
        # These releases leave nothing behind in the account, so they are deleted with the cluster.
        inside = pulumi.ResourceOptions(parent=self, deleted_with=cluster, depends_on=list(after))
        kinds = self._release(values.KARPENTER_CRDS, {}, inside)
        controller = self._release(
            values.KARPENTER_NAME,
            values.karpenter_values(fleet),
            pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[kinds])),
        )
        self.pools = {
            pool.name: self._pool(pool, [controller, *after]) for pool in fleet.karpenter_pools
        }
        self.register_outputs({})

    def _release(
        self, chart: str, settings: values.JsonObject, opts: pulumi.ResourceOptions
    ) -> k8s.helm.v3.Release:
        return helm_release(
            chart,
            release=chart,
            namespace=values.KARPENTER_NAMESPACE,
            address=(values.karpenter_chart(self._plan, chart), None),
            version=self._plan.chart_version,
            settings=settings,
            # They are in a release of their own, which is upgraded.
            skip_crds=True,
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=opts,
        )

    def _pool(self, pool: EksPoolPlan, after: Sequence[pulumi.Resource]) -> pulumi.Resource:
        """Its objects are deleted even if the cluster is deleted too: only Karpenter ends the
        instances, which would otherwise stay.
        """
        made = self._makings
        kind = self._object(
            pool.name,
            values.CLASS_API,
            "EC2NodeClass",
            values.node_class(
                pool,
                role=made.role,
                subnet_ids=[i for zone in pool.settings.zones for i in made.subnet_ids[zone]],
                security_group=made.security_group,
            ),
            _READY,
            after,
        )
        known = [kind]
        if (overlay := values.node_overlay(pool)) is not None:
            known.append(
                self._object(pool.name, values.OVERLAY_API, "NodeOverlay", overlay, {}, after)
            )
        return self._object(
            pool.name,
            values.NODE_API,
            "NodePool",
            values.node_pool(pool, self._plan),
            {**_READY, **_DRAINED},
            # With the overlay there already: without it, the pool offers no partitions.
            [*after, *known],
        )

    def _object(
        self,
        pool: str,
        api_version: str,
        kind: str,
        spec: values.JsonObject,
        annotations: Mapping[str, str],
        after: Sequence[pulumi.Resource],
    ) -> pulumi.Resource:
        made: pulumi.Resource = k8s.apiextensions.CustomResource(
            f"{self._name}-{pool}-{kind.lower()}",
            api_version=api_version,
            kind=kind,
            # Not an empty map: the API server drops it, and every `up` would write it again.
            metadata={"name": pool, **({"annotations": dict(annotations)} if annotations else {})},
            spec=spec,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(after),
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{_READY_MINUTES}m",
                    update=f"{_READY_MINUTES}m",
                    delete=f"{_DRAIN_MINUTES}m",
                ),
                # Its name is fixed.
                delete_before_replace=True,
            ),
        )
        return made
