"""The Pulumi program: from a plan to providers, components and outputs, on GKE, on EKS and in
clusters that exist.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from apis.names import POOL_LABEL
from infra import plan, spec, values
from infra.components import existing_cluster, pods
from infra.components.admission import NodeGuard, PodGuard, StartupTaint
from infra.components.adopted_operator import AdoptedOperator
from infra.components.destroy_notice import DestroyNotice
from infra.components.eks import EksCluster
from infra.components.eks_autoscaler import ClusterAutoscaler
from infra.components.fleet_controller import FleetController
from infra.components.gke import GkeCluster
from infra.components.gke_gpu_networks import GpuNetworkObjects
from infra.components.gpu_operator import GpuOperator
from infra.components.gpu_pool import GpuPools
from infra.components.karpenter import Karpenter
from infra.components.monitoring import Monitoring
from infra.components.node_agent import NodeAgents
from infra.components.pod_autoscaling import PodAutoscaling
from infra.components.prometheus_adapter import PrometheusAdapter
from infra.components.workloads import Workloads
from infra.plan import (
    AdapterPlan,
    EksAutoscalerPlan,
    EksFleetPlan,
    ExistingFleetPlan,
    ExistingSettings,
    FleetPlan,
    GkeFleetPlan,
    KarpenterPlan,
    KedaPlan,
)


def main() -> None:
    """Deploys the stack that Pulumi runs. Raises RunError: Pulumi prints it without traceback."""
    text = pulumi.Config("slicewright").require("fleet")
    source = locate(text, Path(pulumi.get_root_directory()), pulumi.get_stack())
    try:
        fleet = plan.deployable(plan.read(text, source), source)
        if isinstance(fleet, ExistingFleetPlan) and fleet.cluster is not None:
            existing_cluster.check(fleet.cluster, Path(pulumi.get_root_directory()), source)
    except spec.SpecError as e:
        raise pulumi.RunError(str(e)) from None
    deploy(fleet)


def locate(text: str, root: Path, stack: str) -> spec.Source:
    """The stack file behind a config value, for its line numbers.

    The value counts: if the file on disk differs from it, there are no line numbers.
    """
    name = f"stacks/Pulumi.{stack}.yaml"
    raw = json.loads(text)
    try:
        source = spec.read(root / name, name=name)
    except spec.NotReadable:
        return spec.Source(f"stack {stack}", raw)
    return source if source.raw == raw else spec.Source(f"stack {stack}", raw)


def deploy(fleet: FleetPlan) -> None:
    """Declares every resource of the plan, which `deployable` has accepted."""
    match fleet:
        case GkeFleetPlan():
            _deploy_gke(fleet)
        case EksFleetPlan():
            _deploy_eks(fleet)
        case ExistingFleetPlan():
            _deploy_byo(fleet)


@dataclass(frozen=True, kw_only=True)
class _Site:
    """The place of a cluster's resources, and their dependencies."""

    kubernetes: k8s.Provider
    cluster: pulumi.Resource | None
    """The cluster: everything in it is deleted with it. None if this program does not make it."""
    system: Sequence[pulumi.Resource]
    """The nodes of the stack for pods that need no GPU."""
    pools: Mapping[str, pulumi.Resource]
    """The nodes of each pool that this program creates."""
    outputs: Mapping[str, pulumi.Input[Any]]


def _deploy_gke(fleet: GkeFleetPlan) -> None:
    project = pulumi.Config("gcp").require("project")
    _notice(fleet)
    provider = gcp.Provider("gcp", project=project, region=fleet.cluster.region)
    cloud = GkeCluster("gke", fleet, project=project, provider=provider)
    site = _site(cloud, system=cloud.system_pool, existing=fleet.cluster.existing)
    if cloud.gpu_networks:
        GpuNetworkObjects(
            "gpu-networks",
            cloud.gpu_networks,
            cluster=site.cluster,
            after=list(cloud.pools.values()),
            opts=pulumi.ResourceOptions(providers=[site.kubernetes]),
        )
    if fleet.operator is not None:
        _deploy_with_operator(fleet, fleet.operator, site)
        return
    # GKE partitions by itself: nothing else has to run before the nodes can be verified.
    _deploy_in_cluster(fleet, site, _guard(fleet, site, operator_account=None), [])


def _deploy_eks(fleet: EksFleetPlan) -> None:
    _notice(fleet)
    provider = aws.Provider("aws", region=fleet.cluster.region)
    cloud = EksCluster("eks", fleet, provider=provider)
    site = _site(
        cloud,
        system=[cloud.system_pool],
        existing=fleet.cluster.existing,
        # One of these entries may be all that lets `pulumi up` administer the cluster: keep it to
        # the cluster's end.
        access=cloud.access,
    )
    inside = pulumi.ResourceOptions(providers=[site.kubernetes])
    match fleet.cluster.autoscaler:
        case EksAutoscalerPlan():
            ClusterAutoscaler(
                "cluster-autoscaler",
                fleet.cluster,
                cluster=site.cluster,
                after=[*site.system, *cloud.before_autoscaler],
                opts=inside,
            )
        case KarpenterPlan():
            karpenter = Karpenter(
                "karpenter",
                fleet,
                makings=cloud.makings,
                cluster=site.cluster,
                after=[*site.system, *cloud.before_autoscaler, *cloud.before_nodes],
                opts=inside,
            )
            site = dataclasses.replace(site, pools={**site.pools, **karpenter.pools})
        case None:
            pass
    if fleet.operator is not None:
        _deploy_with_operator(fleet, fleet.operator, site)
        return
    # Bottlerocket partitions and advertises by itself.
    _deploy_in_cluster(fleet, site, _guard(fleet, site, operator_account=None), [])


def _notice(fleet: GkeFleetPlan | EksFleetPlan) -> None:
    if not fleet.cluster.existing:
        DestroyNotice(pulumi.get_stack())


def _deploy_byo(fleet: ExistingFleetPlan) -> None:
    assert fleet.cluster is not None, "deployable() refuses hosts, and without them there is one"
    site = _Site(
        kubernetes=existing_cluster.provider(fleet.cluster, Path(pulumi.get_root_directory())),
        cluster=None,
        system=[],
        pools={},
        outputs={"cluster": fleet.cluster.name, "context": fleet.cluster.context},
    )
    controller = _deploy_with_operator(fleet, fleet.operator, site)
    match fleet.startup_taint:
        case "admission-policy":
            StartupTaint(
                "startup-taint",
                pools=fleet.pools,
                after=[controller.deployment],
                opts=pulumi.ResourceOptions(providers=[site.kubernetes]),
            )
        case "registered":
            pass
        case "none":
            pulumi.log.warn(plan.NO_STARTUP_TAINT)


def _site(
    cloud: GkeCluster | EksCluster,
    *,
    system: Sequence[pulumi.Resource],
    existing: bool,
    access: Sequence[pulumi.Resource] = (),
) -> _Site:
    """existing: the stack does not make the cluster, so it does not delete it either. access:
    resources that must outlive everything in the cluster.
    """
    kubernetes = k8s.Provider(
        "kubernetes",
        kubeconfig=cloud.kubeconfig,
        # Without it, an unknown kubeconfig in a preview would replace the provider and everything
        # in the cluster.
        cluster_identifier=cloud.cluster.id,
        opts=pulumi.ResourceOptions(depends_on=[*access]),
    )
    return _Site(
        kubernetes=kubernetes,
        cluster=None if existing else cloud.cluster,
        system=system,
        pools=cloud.pools,
        outputs={
            "cluster": cloud.cluster.name,
            "endpoint": cloud.endpoint,
            # It holds no credential, but as plain text it would fill the screen after every `up`.
            "kubeconfig": pulumi.Output.secret(cloud.kubeconfig),
        },
    )


def _guard(fleet: FleetPlan, site: _Site, *, operator_account: str | None) -> NodeGuard:
    return NodeGuard(
        "node-guard",
        admin_groups=fleet.admin_groups,
        operator_account=operator_account,
        selecting=sorted(
            {
                key
                for pool in fleet.pools
                if isinstance(pool.settings, ExistingSettings)
                for key in pool.settings.select
            }
            - {POOL_LABEL}
        ),
        cluster=site.cluster,
        opts=pulumi.ResourceOptions(providers=[site.kubernetes]),
    )


def _deploy_with_operator(
    fleet: FleetPlan, settings: spec.GpuOperator, site: _Site
) -> FleetController:
    guard = _guard(fleet, site, operator_account=values.operator_account(settings))
    if isinstance(fleet, ExistingFleetPlan) and fleet.operator.existing:
        adopted = AdoptedOperator(
            "gpu-operator",
            fleet,
            after=guard.guards,
            opts=pulumi.ResourceOptions(providers=[site.kubernetes]),
        )
        return _deploy_in_cluster(fleet, site, guard, [adopted.fit])
    operator = GpuOperator(
        "gpu-operator",
        fleet,
        cluster=site.cluster,
        after=[*site.system, *guard.guards],
        opts=pulumi.ResourceOptions(providers=[site.kubernetes]),
    )
    return _deploy_in_cluster(fleet, site, guard, [operator.release])


def _deploy_in_cluster(
    fleet: FleetPlan,
    site: _Site,
    guard: NodeGuard,
    partitioners: Sequence[pulumi.Input[pulumi.Resource]],
) -> FleetController:
    inside = pulumi.ResourceOptions(providers=[site.kubernetes])
    if fleet.pod_guard is not None:
        PodGuard(
            "pod-guard",
            exempt_namespaces=values.exempt_namespaces(fleet, fleet.pod_guard),
            cluster=site.cluster,
            opts=inside,
        )
    controller = FleetController(
        "fleet-controller",
        image=pods.Image(name=fleet.image, pull_secrets=fleet.image_pull_secrets),
        node_selector=values.system_labels(fleet),
        metrics_from=fleet.metrics_from,
        cluster=site.cluster,
        after=[*site.system, *guard.guards],
        opts=inside,
    )
    agents = NodeAgents(
        "node-agent",
        pools=fleet.pools,
        operator=fleet.operator,
        image=pods.Image(name=fleet.image, pull_secrets=fleet.image_pull_secrets),
        settings=fleet.node_agent,
        namespace=controller.namespace,
        cluster=site.cluster,
        # The operator creates the runtime class of the agents' pods. The API server refuses pods
        # without it.
        after=[*controller.kinds, *controller.ready_for_pods, *guard.guards, *partitioners],
        opts=inside,
    )
    pools = GpuPools(
        "gpu-pool",
        pools=fleet.pools,
        timeout_minutes=fleet.verify_timeout_minutes,
        cluster=site.cluster,
        after={
            pool.name: [
                *controller.kinds,
                controller.deployment,
                agents.daemon_sets[pool.name],
                *([site.pools[pool.name]] if pool.name in site.pools else []),
                *partitioners,
            ]
            for pool in fleet.pools
        },
        machines={
            pool.name: site.pools[pool.name]
            for pool in fleet.pools
            # Karpenter drains the nodes of a NodePool that goes.
            if pool.name in site.pools and getattr(pool, "karpenter", None) is None
        },
        opts=inside,
    )
    servers: Sequence[pulumi.Resource] = []
    if fleet.deployments:
        # Not before all pools are verified: else `up` would wait for pods that have no partition.
        workloads = Workloads(
            "workload",
            fleet,
            after={name: [pools.proven(pool)] for name, pool in pools.pools.items()},
            system=site.system,
            opts=inside,
        )
        servers = workloads.namespaces
        _scale(fleet, site, workloads)
    if fleet.monitoring is not None:
        Monitoring(
            "monitoring",
            fleet,
            cluster=site.cluster,
            after=site.system,
            scraped=[*controller.ready_for_pods, *partitioners, *servers],
            opts=inside,
        )
    # No output waits for verification: they are needed to look into a pool that fails.
    for name, value in site.outputs.items():
        pulumi.export(name, value)
    pulumi.export("pools", pool_outputs(fleet))
    return controller


def _scale(fleet: FleetPlan, site: _Site, workloads: Workloads) -> None:
    """Declares the autoscaler of workloads, if any workload is scaled."""
    inside = pulumi.ResourceOptions(providers=[site.kubernetes])
    match fleet.pod_autoscaling:
        case KedaPlan() as keda:
            PodAutoscaling(
                "pod-autoscaling",
                fleet,
                keda,
                deployments=workloads.deployments,
                cluster=site.cluster,
                # Its chart binds roles in the namespaces that it watches.
                after=[*site.system, *workloads.namespaces],
                opts=inside,
            )
        case AdapterPlan():
            PrometheusAdapter(
                "prometheus-adapter",
                fleet,
                deployments=workloads.deployments,
                cluster=site.cluster,
                after=site.system,
                opts=inside,
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
            "replicas": {one.resource: one.replicas for one in pool.offer.sharing},
        }
        for pool in fleet.pools
    ]
