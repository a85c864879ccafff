"""Plans an EKS fleet, by the rules of the EKS API."""

from __future__ import annotations

import dataclasses

from infra import spec
from infra.plan.eks.access import access_of
from infra.plan.eks.addons import addons_of
from infra.plan.eks.addresses import check_own_subnets
from infra.plan.eks.autoscaler import autoscaler_of
from infra.plan.eks.cluster import check_endpoint, check_secrets_key
from infra.plan.eks.identities import identities_of
from infra.plan.eks.pools import check_one_kubernetes, eks_pool
from infra.plan.eks.tags import instance_tags_of, tags_of
from infra.plan.eks.templates import check_instance_tags, system_template
from infra.plan.findings import Checked, Stated, each, refuse
from infra.plan.gpu_operator.device_plugin import check_plugin, with_one_config
from infra.plan.gpu_operator.settings import check_operator, resolved
from infra.plan.machines.regions import (
    aws_region,
    check_aws_zones,
    check_control_plane,
    check_eks_version,
    check_one_spelling,
)
from infra.plan.model.clusters import EksClusterPlan
from infra.plan.model.fleets import CommonPlanner, EksFleetPlan
from infra.plan.pools.clusters import check_existing, system_pool


def plan_eks(
    fleet: spec.EksFleet, stated: Stated, plan_common: CommonPlanner
) -> Checked[EksFleetPlan | None]:
    region = fleet.cluster.region
    known = yield from aws_region(fleet.cluster)
    own = fleet.cluster.zones or (f"{region}a", f"{region}b")
    yield from check_existing(fleet.cluster)
    existing = fleet.cluster.existing
    if len(set(own)) < 2 and not existing:
        yield refuse(
            ("cluster", "zones"),
            "EKS requires subnets in at least two zones",
            f"for example [{region}a, {region}b]",
            "EKS docs, VPC",
        )
    yield from check_aws_zones(fleet.cluster.zones or (), known, ("cluster", "zones"), stated)
    if not existing:
        yield from check_control_plane(fleet.cluster.zones or (), known, stated)
    yield from check_one_spelling(fleet, known)
    yield from check_eks_version(fleet.cluster)
    yield from check_one_kubernetes(fleet)
    yield from check_endpoint(fleet.cluster.endpoint)
    yield from check_secrets_key(fleet.cluster.secrets_key, known)
    tags = yield from tags_of(fleet.cluster)
    of_instances = yield from instance_tags_of(fleet.cluster)
    yield from check_instance_tags(of_instances, ("cluster", "instance_tags"))
    addons = yield from addons_of(fleet.cluster)
    autoscaler = yield from autoscaler_of(fleet)
    access = yield from access_of(fleet.cluster, known)
    identities = yield from identities_of(fleet.cluster, known)
    yield from _check_operator(fleet.gpu_operator)
    yield from check_operator(fleet.gpu_operator, "eks", stated, new_cluster=not existing)
    pools = yield from each(
        eks_pool(fleet, i, own, known, stated) for i in range(len(fleet.node_pools))
    )
    zones = fleet.system_pool.zones or own
    yield from check_aws_zones(
        fleet.system_pool.zones or (), known, ("system_pool", "zones"), stated
    )
    system = yield from system_pool(fleet.system_pool, "eks", zones)
    built = with_one_config([pool for pool in pools if pool is not None])
    if system is not None:
        yield from check_own_subnets(fleet, system, built, stated)
    yield from check_plugin(fleet.gpu_operator, built, stated)
    common = yield from plan_common(built)
    if len(built) != len(pools) or system is None:
        return None
    used = (*system.zones, *(zone for pool in built for zone in pool.settings.zones))
    return EksFleetPlan(
        **common,
        cluster=EksClusterPlan(
            name=fleet.cluster.name,
            region=region,
            zones=() if existing else own,
            pool_zones=tuple(dict.fromkeys(zone for zone in used if existing or zone not in own)),
            version=fleet.cluster.version,
            network=fleet.cluster.network,
            endpoint=fleet.cluster.endpoint,
            logs=tuple(sorted(set(fleet.cluster.logs))),
            secrets_key=fleet.cluster.secrets_key,
            addons=addons,
            autoscaler=autoscaler,
            pod_identities=identities,
            access=access,
            tags=tags,
            permissions_boundary=fleet.cluster.permissions_boundary,
            creator_admin=fleet.cluster.access.creator_admin,
            existing=fleet.cluster.existing,
        ),
        system=dataclasses.replace(system, template=system_template(of_instances)),
        pools=built,
        operator=resolved(fleet.gpu_operator, "eks")
        if any(not pool.settings.bottlerocket for pool in built)
        else None,
    )


def _check_operator(operator: spec.GpuOperator) -> Checked[None]:
    for name, switch in (("driver", operator.driver), ("toolkit", operator.toolkit)):
        if switch.enabled:
            yield refuse(
                ("gpu_operator", name, "enabled"),
                f"EKS's machine images contain their own {name}, and NVIDIA publishes no container "
                "with one for Amazon Linux",
                "write false",
                "EKS AMI docs; NVIDIA/gpu-operator #686",
            )
