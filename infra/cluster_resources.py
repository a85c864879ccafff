"""The resources inside a cluster, the same for GKE, EKS and existing clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis.names import POOL_LABEL
from slicewright.infra import manifests
from slicewright.infra.components import pods
from slicewright.infra.components.fleet.admission import NodeGuard, PodGuard
from slicewright.infra.components.fleet.adopted_operator import AdoptedOperator
from slicewright.infra.components.fleet.controller import FleetController
from slicewright.infra.components.fleet.fractional_engine import FractionalEngine
from slicewright.infra.components.fleet.gpu_operator import GpuOperator
from slicewright.infra.components.fleet.gpu_pool import GpuPools
from slicewright.infra.components.fleet.node_agent import NodeAgents
from slicewright.infra.components.services.monitoring import Monitoring
from slicewright.infra.components.services.pod_autoscaling import PodAutoscaling
from slicewright.infra.components.services.prometheus_adapter import PrometheusAdapter
from slicewright.infra.components.services.workloads import Workloads
from slicewright.infra.plan import (
    AdapterPlan,
    ExistingFleetPlan,
    ExistingSettings,
    FleetPlan,
    KedaPlan,
)


@dataclass(frozen=True, kw_only=True)
class Site:
    """A cluster, with the resources that its contents depend on."""

    kubernetes: k8s.Provider
    cluster: pulumi.Resource | None
    """The cluster: everything in it is deleted with it. None if the stack does not create it."""
    system: Sequence[pulumi.Resource]
    """The stack's nodes for pods that need no GPU."""
    pools: Mapping[str, pulumi.Resource]
    """Maps a pool to the resource that creates its nodes. Pools of existing nodes are missing."""
    outputs: Mapping[str, pulumi.Input[Any]]

    @property
    def opts(self) -> pulumi.ResourceOptions:
        """The options of components in the cluster."""
        return pulumi.ResourceOptions(providers=[self.kubernetes])


@dataclass(frozen=True, kw_only=True)
class _Foundation:
    """The components that every pool and workload depends on."""

    controller: FleetController
    agents: NodeAgents
    partitioners: Sequence[pulumi.Input[pulumi.Resource]]
    """The programs in the cluster that partition GPUs. Empty if GKE or the node's image does it."""
    engine: Sequence[pulumi.Resource]
    """The programs that share GPUs by fractions. Empty without an engine."""


def deploy_in_cluster(fleet: FleetPlan, site: Site) -> FleetController:
    """Declares everything in the cluster, and the stack's outputs."""
    foundation = _deploy_foundation(fleet, site)
    pools = _deploy_pools(fleet, site, foundation)
    workload_namespaces = _deploy_workloads(fleet, site, pools)
    if fleet.monitoring is not None:
        controller = foundation.controller
        Monitoring(
            "monitoring",
            fleet,
            cluster=site.cluster,
            depends_on=site.system,
            scraped=[
                *controller.ready_for_pods,
                *foundation.partitioners,
                *workload_namespaces,
            ],
            opts=site.opts,
        )
    # The outputs do not wait for verification: a user needs them to look into a failing pool.
    for name, value in site.outputs.items():
        pulumi.export(name, value)
    pulumi.export("pools", pool_outputs(fleet))
    return foundation.controller


def _deploy_foundation(fleet: FleetPlan, site: Site) -> _Foundation:
    guard = _guard_nodes(fleet, site)
    partitioners = _deploy_partitioners(fleet, site, guard)
    if fleet.pod_guard is not None:
        PodGuard(
            "pod-guard",
            exempt_namespaces=manifests.exempt_namespaces(fleet, fleet.pod_guard),
            cluster=site.cluster,
            opts=site.opts,
        )
    image = pods.Image(name=fleet.image, pull_secrets=fleet.image_pull_secrets)
    controller = FleetController(
        "fleet-controller",
        image=image,
        node_selector=manifests.system_labels(fleet),
        metrics_from=fleet.metrics_from,
        cluster=site.cluster,
        depends_on=[*site.system, *guard.guards],
        opts=site.opts,
    )
    agents = NodeAgents(
        "node-agent",
        pools=fleet.pools,
        operator=fleet.operator,
        image=image,
        settings=fleet.node_agent,
        namespace=controller.namespace,
        cluster=site.cluster,
        # The operator creates the runtime class of the agents' pods. The API server refuses pods
        # without it.
        depends_on=[*controller.kinds, *controller.ready_for_pods, *guard.guards, *partitioners],
        opts=site.opts,
    )
    return _Foundation(
        controller=controller,
        agents=agents,
        partitioners=partitioners,
        engine=_deploy_engine(fleet, site, [*guard.guards, *partitioners]),
    )


def _deploy_engine(
    fleet: FleetPlan, site: Site, depends_on: Sequence[pulumi.Input[pulumi.Resource]]
) -> Sequence[pulumi.Resource]:
    """Declares the engine for fractions. Returns its charts' releases, or nothing without one."""
    if fleet.engine is None:
        return []
    engine = FractionalEngine(
        "fractional-engine",
        fleet,
        cluster=site.cluster,
        depends_on=[*site.system, *depends_on],
        opts=site.opts,
    )
    return engine.releases


def _guard_nodes(fleet: FleetPlan, site: Site) -> NodeGuard:
    selector_keys = {
        key
        for pool in fleet.pools
        if isinstance(pool.settings, ExistingSettings)
        for key in pool.settings.select
    }
    return NodeGuard(
        "node-guard",
        admin_groups=fleet.admin_groups,
        operator_account=(
            manifests.operator_account(fleet.operator) if fleet.operator is not None else None
        ),
        selecting=sorted(selector_keys - {POOL_LABEL}),
        cluster=site.cluster,
        opts=site.opts,
    )


def _deploy_partitioners(
    fleet: FleetPlan, site: Site, guard: NodeGuard
) -> Sequence[pulumi.Input[pulumi.Resource]]:
    """The GPU operator, new or adopted. Without one, GKE or the node's image partitions GPUs, and
    the nodes need nothing else before they can be verified.
    """
    if fleet.operator is None:
        return []
    if isinstance(fleet, ExistingFleetPlan) and fleet.operator.existing:
        adopted = AdoptedOperator("gpu-operator", fleet, depends_on=guard.guards, opts=site.opts)
        return [adopted.fit]
    operator = GpuOperator(
        "gpu-operator",
        fleet,
        cluster=site.cluster,
        depends_on=[*site.system, *guard.guards],
        opts=site.opts,
    )
    return [operator.release]


def _deploy_pools(fleet: FleetPlan, site: Site, foundation: _Foundation) -> GpuPools:
    controller, agents = foundation.controller, foundation.agents
    return GpuPools(
        "gpu-pool",
        pools=fleet.pools,
        timeout_minutes=fleet.verify_timeout_minutes,
        cluster=site.cluster,
        depends_on={
            pool.name: [
                *controller.kinds,
                controller.deployment,
                agents.daemon_sets[pool.name],
                *([site.pools[pool.name]] if pool.name in site.pools else []),
                *foundation.partitioners,
                *foundation.engine,
            ]
            for pool in fleet.pools
        },
        machines={
            pool.name: site.pools[pool.name]
            for pool in fleet.pools
            # Karpenter drains the nodes of a NodePool that is deleted.
            if pool.name in site.pools and getattr(pool, "karpenter", None) is None
        },
        engine_namespace=manifests.engine_namespace(fleet),
        opts=site.opts,
    )


def _deploy_workloads(fleet: FleetPlan, site: Site, pools: GpuPools) -> Sequence[pulumi.Resource]:
    """Declares the workloads and their autoscaler. Returns the namespaces that the stack creates.

    Workloads wait until all pools are verified: else `up` would wait for pods without a partition.
    """
    if not fleet.deployments:
        return []
    workloads = Workloads(
        "workload",
        fleet,
        depends_on={name: [pools.once_verified(pool)] for name, pool in pools.pools.items()},
        system=site.system,
        opts=site.opts,
    )
    _deploy_autoscaler(fleet, site, workloads)
    return workloads.namespaces


def _deploy_autoscaler(fleet: FleetPlan, site: Site, workloads: Workloads) -> None:
    """Declares the autoscaler of workloads, if any workload is scaled."""
    match fleet.pod_autoscaling:
        case KedaPlan() as keda:
            PodAutoscaling(
                "pod-autoscaling",
                fleet,
                keda,
                deployments=workloads.deployments,
                cluster=site.cluster,
                # Its chart binds roles in the namespaces that it watches.
                depends_on=[*site.system, *workloads.namespaces],
                opts=site.opts,
            )
        case AdapterPlan():
            PrometheusAdapter(
                "prometheus-adapter",
                fleet,
                deployments=workloads.deployments,
                cluster=site.cluster,
                depends_on=site.system,
                opts=site.opts,
            )
        case None:
            pass


def pool_outputs(fleet: FleetPlan) -> list[Mapping[str, Any]]:
    """The output `pools`. Partitions and whole GPUs are counted over the fewest nodes, and before
    sharing: each of them is advertised as often as `replicas` says.
    """
    return [
        {
            "name": pool.name,
            **(
                {"select": dict(pool.settings.select)}
                if isinstance(pool.settings, ExistingSettings)
                else {"machine": pool.settings.machine.name}
            ),
            "nodes": {"min": pool.nodes.min, "max": pool.nodes.max},
            "gpus_per_node": f"{pool.gpu_count} x {pool.gpu.name}",
            "layout_per_gpu": dict(pool.offer.layout)
            if pool.offer.layout is not None
            else [dict(layout) for layout in pool.offer.layouts],
            "resources_per_node": dict(pool.offer.resources),
            "partitions": pool.offer.partitions * pool.nodes.min,
            "whole_gpus": pool.offer.whole_gpus * pool.nodes.min,
            "replicas": {shared.resource: shared.replicas for shared in pool.offer.sharing},
        }
        for pool in fleet.pools
    ]
