"""Plans an EKS fleet, by the rules of the EKS API."""

from __future__ import annotations

from dataclasses import replace

from slicewright.infra import stack_file
from slicewright.infra.catalog import AwsRegion
from slicewright.infra.plan.eks.access import access_of
from slicewright.infra.plan.eks.addons import addons_of
from slicewright.infra.plan.eks.autoscaler import autoscaler_of
from slicewright.infra.plan.eks.cluster import check_endpoint, check_name, check_secrets_key
from slicewright.infra.plan.eks.identities import identities_of
from slicewright.infra.plan.eks.pools import check_one_kubernetes, eks_pool
from slicewright.infra.plan.eks.subnets.addresses import check_own_subnets
from slicewright.infra.plan.eks.tags import instance_tags_of, tags_of
from slicewright.infra.plan.eks.templates import check_instance_tags, system_template
from slicewright.infra.plan.findings import Checked, Stated, each, refuse, rule
from slicewright.infra.plan.gpu_operator.device_plugin import check_plugin, with_one_config
from slicewright.infra.plan.gpu_operator.settings import check_operator, resolved
from slicewright.infra.plan.machines.kubernetes_versions import check_eks_version
from slicewright.infra.plan.machines.regions import (
    aws_region,
    check_aws_zones,
    check_control_plane,
    check_one_spelling,
)
from slicewright.infra.plan.model.clusters import EksClusterPlan
from slicewright.infra.plan.model.fleets import CommonPlanner, EksFleetPlan
from slicewright.infra.plan.pools.clusters import check_existing, system_pool


def plan_eks(
    fleet: stack_file.EksFleet, stated: Stated, plan_common: CommonPlanner
) -> Checked[EksFleetPlan | None]:
    region = yield from aws_region(fleet.cluster)
    zones = fleet.cluster.zones or (f"{fleet.cluster.region}a", f"{fleet.cluster.region}b")
    yield from _check_zones(fleet, zones, region, stated)
    yield from check_one_kubernetes(fleet)
    cluster = yield from _plan_cluster(fleet, zones, region)
    yield from _check_operator(fleet.gpu_operator)
    new_cluster = not fleet.cluster.existing
    yield from check_operator(fleet.gpu_operator, "eks", stated, new_cluster=new_cluster)
    pools = yield from each(
        eks_pool(fleet, i, zones, region, stated) for i in range(len(fleet.node_pools))
    )
    system_zones = ("system_pool", "zones")
    yield from check_aws_zones(fleet.system_pool.zones or (), region, system_zones, stated)
    system = yield from system_pool(fleet.system_pool, "eks", fleet.system_pool.zones or zones)
    built = with_one_config([pool for pool in pools if pool is not None])
    if system is not None:
        yield from check_own_subnets(fleet, system, built, stated)
    yield from check_plugin(fleet.gpu_operator, built, stated)
    common = yield from plan_common(built)
    if len(built) != len(pools) or system is None:
        return None
    used = (*system.zones, *(zone for pool in built for zone in pool.settings.zones))
    more_zones = dict.fromkeys(zone for zone in used if zone not in cluster.zones)
    by_operator = any(not pool.settings.bottlerocket for pool in built)
    return EksFleetPlan(
        **common,
        cluster=replace(cluster, pool_zones=tuple(more_zones)),
        system=replace(system, template=system_template(fleet.cluster.instance_tags)),
        pools=built,
        operator=resolved(fleet.gpu_operator, "eks") if by_operator else None,
    )


@rule("eks-zones")
def _check_zones(
    fleet: stack_file.EksFleet, zones: tuple[str, ...], region: AwsRegion | None, stated: Stated
) -> Checked[None]:
    """zones: the cluster's, stated or by default."""
    cluster = fleet.cluster
    yield from check_existing(cluster)
    if len(set(zones)) < 2 and not cluster.existing:
        yield refuse(
            ("cluster", "zones"),
            "EKS requires subnets in at least two zones",
            f"for example [{cluster.region}a, {cluster.region}b]",
            "EKS docs, VPC",
        )
    yield from check_aws_zones(cluster.zones or (), region, ("cluster", "zones"), stated)
    if not cluster.existing:
        yield from check_control_plane(cluster.zones or (), region, stated)
    yield from check_one_spelling(fleet, region)


def _plan_cluster(
    fleet: stack_file.EksFleet, zones: tuple[str, ...], region: AwsRegion | None
) -> Checked[EksClusterPlan]:
    """The cluster, without zones that only pools use."""
    cluster = fleet.cluster
    yield from check_name(cluster)
    yield from check_eks_version(cluster)
    yield from check_endpoint(cluster.endpoint)
    yield from check_secrets_key(cluster.secrets_key, region)
    tags = yield from tags_of(cluster)
    instance_tags = yield from instance_tags_of(cluster)
    yield from check_instance_tags(instance_tags, ("cluster", "instance_tags"))
    addons = yield from addons_of(cluster)
    autoscaler = yield from autoscaler_of(fleet)
    access = yield from access_of(cluster, region)
    identities = yield from identities_of(cluster, region)
    return EksClusterPlan(
        name=cluster.name,
        region=cluster.region,
        zones=() if cluster.existing else zones,
        pool_zones=(),
        version=cluster.version,
        network=cluster.network,
        endpoint=cluster.endpoint,
        logs=tuple(sorted(set(cluster.logs))),
        secrets_key=cluster.secrets_key,
        addons=addons,
        autoscaler=autoscaler,
        pod_identities=identities,
        access=access,
        tags=tags,
        permissions_boundary=cluster.permissions_boundary,
        creator_admin=cluster.access.creator_admin,
        existing=cluster.existing,
    )


@rule("eks-gpu-operator")
def _check_operator(operator: stack_file.GpuOperator) -> Checked[None]:
    for name, switch in (("driver", operator.driver), ("toolkit", operator.toolkit)):
        if switch.enabled:
            yield refuse(
                ("gpu_operator", name, "enabled"),
                f"EKS's machine images contain their own {name}, and NVIDIA publishes no container "
                "with one for Amazon Linux",
                "write false",
                "EKS AMI docs; NVIDIA/gpu-operator #686",
            )
