"""The Pulumi program: from a plan to providers, components and outputs, on GKE, on EKS and in
clusters that exist.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from slicewright.infra import plan, stack_file
from slicewright.infra.cluster_resources import Site, deploy_in_cluster
from slicewright.infra.components import existing_cluster
from slicewright.infra.components.destroy_notice import DestroyNotice
from slicewright.infra.components.eks.autoscaler import ClusterAutoscaler
from slicewright.infra.components.eks.cluster import EksCluster
from slicewright.infra.components.eks.karpenter import Karpenter
from slicewright.infra.components.fleet.admission import StartupTaint
from slicewright.infra.components.gke.cluster import GkeCluster
from slicewright.infra.components.gke.gpu_networks import GpuNetworkObjects
from slicewright.infra.plan import (
    EksAutoscalerPlan,
    EksFleetPlan,
    ExistingFleetPlan,
    FleetPlan,
    GkeFleetPlan,
    KarpenterPlan,
)


def main() -> None:
    """Deploys the stack that Pulumi runs. Raises RunError: Pulumi prints it without traceback."""
    text = pulumi.Config("slicewright").require("fleet")
    try:
        source = locate(text, Path(pulumi.get_root_directory()), pulumi.get_stack())
        fleet = plan.deployable(plan.read_source(source), source)
        if isinstance(fleet, ExistingFleetPlan) and fleet.cluster is not None:
            existing_cluster.check(fleet.cluster, Path(pulumi.get_root_directory()), source)
    except stack_file.SpecError as e:
        raise pulumi.RunError(str(e)) from None
    deploy(fleet)


def locate(text: str, root: Path, stack: str) -> stack_file.Source:
    """The fleet of a config value, merged with its base files, and the stack file that the value
    comes from, for line numbers in messages. Raises SpecError if a base file cannot be read.

    The engine passes the stack's own part, which is compared with the file on disk. If they differ,
    the value counts, and has no line numbers.
    """
    file = stack_file.stack_path(root, stack)
    source = stack_file.Source(f"stack {stack}", json.loads(text))
    try:
        written = stack_file.read_single(file, name=os.path.relpath(file, root))
    except stack_file.NotReadable:
        pass
    else:
        source = written if written.raw == source.raw else source
    try:
        return stack_file.extend(source, file)
    except stack_file.NotReadable as e:
        raise stack_file.unreadable(str(e), source.name) from None


def deploy(fleet: FleetPlan) -> None:
    """Declares every resource of the plan, which `deployable` has accepted."""
    match fleet:
        case GkeFleetPlan():
            _deploy_gke(fleet)
        case EksFleetPlan():
            _deploy_eks(fleet)
        case ExistingFleetPlan():
            _deploy_byo(fleet)


def _deploy_gke(fleet: GkeFleetPlan) -> None:
    project = pulumi.Config("gcp").require("project")
    _add_destroy_notice(fleet)
    provider = gcp.Provider("gcp", project=project, region=fleet.cluster.region)
    cloud = GkeCluster("gke", fleet, project=project, provider=provider)
    site = _site(cloud, system=cloud.system_pool, existing=fleet.cluster.existing)
    if cloud.gpu_networks:
        GpuNetworkObjects(
            "gpu-networks",
            cloud.gpu_networks,
            cluster=site.cluster,
            depends_on=list(cloud.pools.values()),
            opts=site.opts,
        )
    deploy_in_cluster(fleet, site)


def _deploy_eks(fleet: EksFleetPlan) -> None:
    _add_destroy_notice(fleet)
    # A provider of the program's own takes nothing from the stack's configuration by itself.
    profile = pulumi.Config("aws").get("profile")
    provider = aws.Provider("aws", region=fleet.cluster.region, profile=profile)
    cloud = EksCluster("eks", fleet, provider=provider, profile=profile)
    site = _site(
        cloud,
        system=[cloud.system_pool],
        existing=fleet.cluster.existing,
        # One of these entries may be all that lets `pulumi up` administer the cluster: keep it to
        # the cluster's end.
        access=cloud.access,
    )
    deploy_in_cluster(fleet, _with_autoscaler(fleet, cloud, site))


def _with_autoscaler(fleet: EksFleetPlan, cloud: EksCluster, site: Site) -> Site:
    """Declares the autoscaler of nodes. Returns the site with the pools of Karpenter."""
    depends_on = [*site.system, *cloud.autoscaler_dependencies]
    match fleet.cluster.autoscaler:
        case EksAutoscalerPlan():
            ClusterAutoscaler(
                "cluster-autoscaler",
                fleet.cluster,
                cluster=site.cluster,
                depends_on=depends_on,
                opts=site.opts,
            )
            return site
        case KarpenterPlan():
            karpenter = Karpenter(
                "karpenter",
                fleet,
                node_class_inputs=cloud.node_class_inputs,
                cluster=site.cluster,
                depends_on=[*depends_on, *cloud.node_dependencies],
                opts=site.opts,
            )
            return dataclasses.replace(site, pools={**site.pools, **karpenter.pools})
        case None:
            return site


def _add_destroy_notice(fleet: GkeFleetPlan | EksFleetPlan) -> None:
    if not fleet.cluster.existing:
        DestroyNotice(pulumi.get_stack())


def _deploy_byo(fleet: ExistingFleetPlan) -> None:
    assert fleet.cluster is not None, "deployable() refuses a fleet of hosts: it has no cluster"
    site = Site(
        kubernetes=existing_cluster.provider(fleet.cluster, Path(pulumi.get_root_directory())),
        cluster=None,
        system=[],
        pools={},
        outputs={"cluster": fleet.cluster.name, "context": fleet.cluster.context},
    )
    controller = deploy_in_cluster(fleet, site)
    match fleet.startup_taint:
        case "admission-policy":
            StartupTaint(
                "startup-taint",
                pools=fleet.pools,
                depends_on=[controller.deployment],
                opts=site.opts,
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
) -> Site:
    """existing: the stack does not create the cluster, so it does not delete it either. access:
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
    return Site(
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
