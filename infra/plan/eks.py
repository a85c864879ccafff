"""An EKS fleet: what Amazon's API wants, and what it refuses."""

from __future__ import annotations

from infra import spec
from infra.plan.capacity import check_capacity, check_offered
from infra.plan.findings import Findings
from infra.plan.fleet import EksClusterPlan, EksFleetPlan, EksPoolPlan
from infra.plan.nodes import count_of, machine_of, pool_labels, pool_taints
from infra.plan.offers import offer_of
from infra.plan.places import check_existing, check_zones, system_pool
from infra.plan.shares import plan_shares

_MOST_TAGS = 50
# What runs on a GPU node beside the pods that hold partitions: network, metrics, agents, operands.
_SYSTEM_PODS = 10


def plan_eks(fleet: spec.EksFleet, findings: Findings) -> EksFleetPlan | None:
    region = fleet.cluster.region
    own = fleet.cluster.zones or (f"{region}a", f"{region}b")
    check_existing(fleet.cluster, findings)
    if len(set(own)) < 2:
        findings.refuse(
            ("cluster", "zones"),
            "EKS wants subnets in at least two zones",
            f"for example [{region}a, {region}b]",
            "EKS docs, VPC",
        )
    check_zones(own, region, ("cluster", "zones"), findings)
    _check_operator(fleet.gpu_operator, findings)
    pools = [_pool(fleet, i, own, region, findings) for i in range(len(fleet.node_pools))]
    zones = fleet.system_pool.zones or own
    check_zones(zones, region, ("system_pool", "zones"), findings)
    system = system_pool(fleet.system_pool, "eks", zones, findings)
    built = tuple(pool for pool in pools if pool is not None)
    fractional = {p.name for p in fleet.node_pools if isinstance(p.sharing, spec.FractionalShares)}
    shares = plan_shares(fleet, [(p.gpu, p.gpu_count) for p in built if p.name in fractional], findings)
    if len(built) != len(pools) or system is None:
        return None
    return EksFleetPlan(
        cluster=EksClusterPlan(
            name=fleet.cluster.name,
            region=region,
            zones=tuple(dict.fromkeys((*own, *system.zones, *(z for p in built for z in p.zones)))),
            version=fleet.cluster.version,
            existing=fleet.cluster.existing,
        ),
        system=system,
        pools=built,
        operator=fleet.gpu_operator,
        image=fleet.image,
        verify_timeout_minutes=fleet.verify_timeout_minutes,
        fractional=fleet.fractional,
        workloads=shares,
    )


def _pool(fleet: spec.EksFleet, i: int, own: tuple[str, ...], region: str, findings: Findings) -> EksPoolPlan | None:
    pool, path = fleet.node_pools[i], ("node_pools", i)
    zones = pool.zones or own[:1]
    check_zones(zones, region, (*path, "zones"), findings)
    nodes = count_of(pool.nodes, (*path, "nodes"), findings)
    check_capacity(pool.capacity, "eks", path, nodes, zones, findings)
    labels = pool_labels(pool, path, "eks", findings)
    taints = pool_taints(pool, path, "eks", findings)
    found = machine_of(pool.machine_type, None, "eks", path, findings)
    offer = (
        offer_of(
            pool,
            path,
            found,
            cloud="eks",
            strategy=fleet.gpu_operator.mig_strategy,
            fractional=fleet.fractional,
            findings=findings,
        )
        if found
        else None
    )
    if found is None:
        return None
    check_offered(pool.capacity, found.machine, path, findings)
    if found.machine.architecture == "arm64":
        findings.refuse(
            (*path, "machine_type"),
            f"{found.machine.name} has arm64 processors, and {pool.ami_type} is for x86",
            "choose a machine with x86 processors",
            found.machine.source,
        )
    if offer is None:
        return None
    most = found.machine.pods
    if most is not None and offer.per_node + _SYSTEM_PODS > most:
        findings.refuse(
            (*path, "sharing" if offer.shares else "partition"),
            f"{offer.per_node} on a node and about {_SYSTEM_PODS} other pods: {found.machine.name} has addresses for {most} pods",
            "share less, or cut larger",
            found.machine.source,
        )
    tags = dict(pool.tags)
    if nodes.autoscaled:
        # What a node of this pool will offer, for an autoscaler that has none to look at. Source: cluster-autoscaler, AWS.
        tags |= {f"k8s.io/cluster-autoscaler/node-template/resources/{name}": str(n) for name, n in offer.resources.items()}
    if len(tags) > _MOST_TAGS:
        findings.refuse(
            (*path, "tags"), f"{len(tags)} tags; AWS allows {_MOST_TAGS} on a node group", "leave some out", "EKS API"
        )
    return EksPoolPlan(
        name=pool.name,
        machine=found.machine,
        zones=zones,
        nodes=nodes,
        capacity=pool.capacity,
        labels={**labels, **offer.labels},
        taints=taints,
        gpu=found.gpu,
        gpu_count=found.count,
        layouts=offer.layouts,
        devices=offer.devices,
        shares=offer.shares,
        resources=offer.resources,
        desired=offer.desired,
        layout_hash=offer.layout_hash,
        mig_config=offer.mig_config,
        rollout=pool.rollout,
        ami_type=pool.ami_type,
        release_version=pool.release_version,
        disk_size_gb=pool.disk.size_gb,
        tags=tags,
    )


def _check_operator(operator: spec.GpuOperator, findings: Findings) -> None:
    for name, switch in (("driver", operator.driver), ("toolkit", operator.toolkit)):
        if switch.enabled:
            findings.refuse(
                ("gpu_operator", name, "enabled"),
                f"the image AL2023_x86_64_NVIDIA brings its own {name}, and NVIDIA has none in a container for Amazon Linux",
                "write false",
                "EKS AMI docs; NVIDIA/gpu-operator #686",
            )
