"""A GKE fleet: what Google's API wants, and what it refuses."""

from __future__ import annotations

import hashlib
import re

from infra import spec
from infra.plan.capacity import check_capacity, check_offered, repaired
from infra.plan.findings import Findings
from infra.plan.fleet import GkeClusterPlan, GkeFleetPlan, GkePoolPlan
from infra.plan.nodes import NO_GKE_PLUGIN_LABEL, count_of, machine_of, pool_labels, pool_taints
from infra.plan.offers import Offer, offer_of
from infra.plan.places import check_existing, check_zones, system_pool
from infra.plan.shares import plan_shares

# What runs on a GPU node beside the pods that hold partitions: network, logging, metrics, agents, operands.
_SYSTEM_PODS = 10


def plan_gke(fleet: spec.GkeFleet, findings: Findings) -> GkeFleetPlan | None:
    location = fleet.cluster.location
    region = re.sub(r"-[a-z]$", "", location)
    own_zone = location if location != region else None
    check_existing(fleet.cluster, findings)
    by_operator = any(isinstance(p.partition, spec.Operator) for p in fleet.node_pools)
    if fleet.gpu_operator is not None and not by_operator:
        findings.refuse(
            ("gpu_operator",),
            "no pool of the fleet is cut by it: GKE's own driver and device plugin do the work",
            "leave it out, or write partition: {mode: operator, …} in a pool",
            "GKE docs, NVIDIA GPU operator",
            in_key=True,
        )
    operator = (fleet.gpu_operator or spec.GpuOperator()) if by_operator else None
    pools = [_pool(fleet, operator, i, region, own_zone, findings) for i in range(len(fleet.node_pools))]
    built = tuple(pool for pool in pools if pool is not None)
    zones = fleet.system_pool.zones or ((own_zone,) if own_zone else built[0].zones[:1] if built else ())
    check_zones(zones, region, ("system_pool", "zones"), findings)
    system = system_pool(fleet.system_pool, "gke", zones, findings)
    fractional = {p.name for p in fleet.node_pools if isinstance(p.sharing, spec.FractionalShares)}
    shares = plan_shares(fleet, [(p.gpu, p.gpu_count) for p in built if p.name in fractional], findings)
    if len(built) != len(pools) or system is None:
        return None
    return GkeFleetPlan(
        cluster=GkeClusterPlan(
            name=fleet.cluster.name,
            location=location,
            region=region,
            version=fleet.cluster.version,
            release_channel=fleet.cluster.release_channel,
            existing=fleet.cluster.existing,
            node_account_id=_account_id(fleet.cluster.name),
        ),
        system=system,
        pools=built,
        operator=operator,
        image=fleet.image,
        verify_timeout_minutes=fleet.verify_timeout_minutes,
        fractional=fleet.fractional,
        workloads=shares,
    )


def _pool(
    fleet: spec.GkeFleet, operator: spec.GpuOperator | None, i: int, region: str, own_zone: str | None, findings: Findings
) -> GkePoolPlan | None:
    pool, path = fleet.node_pools[i], ("node_pools", i)
    if pool.zones == () or (pool.zones is None and own_zone is None):
        findings.refuse(
            (*path, "zones"),
            f"is missing: the cluster is in all zones of {region}, and GKE would make the pool's nodes in three of them",
            f"name the zones that have the machine, for example [{region}-a]",
        )
    zones = pool.zones or ((own_zone,) if own_zone else ())
    check_zones(zones, region, (*path, "zones"), findings)
    nodes = count_of(pool.nodes, (*path, "nodes"), findings)
    if not nodes.autoscaled and zones and nodes.max % len(zones):
        findings.refuse(
            (*path, "nodes", "count"),
            f"{nodes.max} nodes cannot be shared evenly among {len(zones)} zones, and GKE counts nodes per zone",
            f"write a multiple of {len(zones)}",
        )
    check_capacity(pool.capacity, "gke", path, nodes, zones, findings)
    management = repaired(pool.management, pool.capacity, path, findings)
    labels = pool_labels(pool, path, "gke", findings)
    taints = pool_taints(pool, path, "gke", findings)
    found = machine_of(pool.machine_type, pool.gpu, "gke", path, findings)
    if found is None:
        return None
    check_offered(pool.capacity, found.machine, path, findings)
    if found.machine.boot_disk not in (None, pool.disk.type):
        findings.refuse(
            (*path, "disk", "type"),
            f"{found.machine.name} does not boot from {pool.disk.type}",
            f"write {found.machine.boot_disk}",
            found.machine.source,
        )
    by_operator = isinstance(pool.partition, spec.Operator)
    _check_driver(pool, path, findings)
    offer = offer_of(
        pool,
        path,
        found,
        cloud="gke",
        strategy=operator.mig_strategy if operator else "mixed",
        fractional=fleet.fractional,
        findings=findings,
    )
    local_ssd = _local_ssd(pool, path, found.machine.local_ssds, findings)
    if offer is None or local_ssd is None or not zones:
        return None
    _check_pods(pool, path, offer, findings)
    gke_shared = pool.sharing if isinstance(pool.sharing, spec.TimeSlicing | spec.Mps) and not by_operator else None
    return GkePoolPlan(
        name=pool.name,
        machine=found.machine,
        zones=zones,
        nodes=nodes,
        capacity=pool.capacity,
        labels={**labels, **offer.labels, **({NO_GKE_PLUGIN_LABEL: "true"} if by_operator else {})},
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
        accelerator=found.accelerator,
        partition_size=pool.partition.profile if isinstance(pool.partition, spec.Native) else None,
        sharing_strategy=None if gke_shared is None else "MPS" if isinstance(gke_shared, spec.Mps) else "TIME_SHARING",
        shared_clients=offer.shares[0].replicas if gke_shared is not None else None,
        driver="INSTALLATION_DISABLED" if by_operator else pool.driver,
        image_type=pool.image_type,
        disk=pool.disk,
        local_ssd=local_ssd,
        max_pods_per_node=pool.max_pods_per_node,
        resource_labels=pool.resource_labels,
        features=pool.features,
        management=management,
    )


def _check_driver(pool: spec.GkePool, path: spec.Path, findings: Findings) -> None:
    if isinstance(pool.partition, spec.Operator) and "driver" in pool.model_fields_set:
        findings.refuse(
            (*path, "driver"),
            "GKE installs no driver where NVIDIA's operator has the node",
            "leave it out",
            "GKE docs, NVIDIA GPU operator",
            in_key=True,
        )
    elif pool.driver == "LATEST" and pool.image_type != "COS_CONTAINERD":
        findings.refuse(
            (*path, "driver"),
            f"GKE has driver LATEST for COS only, not for {pool.image_type}",
            "write DEFAULT",
            "GKE docs, drivers",
        )
    if isinstance(pool.sharing, spec.FractionalShares) and pool.image_type != "UBUNTU_CONTAINERD":
        findings.refuse(
            (*path, "image_type"),
            f"HAMi does not run on {pool.image_type}",
            "write UBUNTU_CONTAINERD",
            "Project-HAMi/website #864",
        )


def _check_pods(pool: spec.GkePool, path: spec.Path, offer: Offer, findings: Findings) -> None:
    if offer.per_node + _SYSTEM_PODS > pool.max_pods_per_node:
        needed, kind = offer.per_node + _SYSTEM_PODS, "shares" if offer.shares else "partitions"
        findings.refuse(
            (*path, "max_pods_per_node"),
            f"{pool.max_pods_per_node} pods are too few for {offer.per_node} {kind} and about {_SYSTEM_PODS} others",
            f"write {needed} or more" if needed <= 256 else "share less: GKE allows 256 pods per node",
        )


def _local_ssd(pool: spec.GkePool, path: spec.Path, fixed: int | None, findings: Findings) -> spec.LocalSsd | None:
    """What is asked for; where the machine type brings SSDs along and nothing is said, all of them for ephemeral storage."""
    if pool.local_ssd is None:
        return spec.LocalSsd(ephemeral=fixed or 0)
    asked = pool.local_ssd
    if asked.ephemeral and asked.raw:
        findings.refuse(
            (*path, "local_ssd"), "GKE uses a node's local SSDs either as ephemeral storage or raw", "leave one out", "GKE API"
        )
        return None
    if fixed is not None and asked.ephemeral + asked.raw != fixed:
        findings.refuse(
            (*path, "local_ssd"),
            f"{pool.machine_type} comes with {fixed} local SSDs, not {asked.ephemeral + asked.raw}",
            f"write {{ephemeral: {fixed}}} or {{raw: {fixed}}}" if fixed else "leave it out",
            "cluster-toolkit",
        )
        return None
    return asked


def _account_id(cluster: str) -> str:
    wanted = f"{cluster}-nodes"
    if 6 <= len(wanted) <= 30:
        return wanted
    return f"{cluster[:15].rstrip('-')}-{hashlib.sha256(cluster.encode()).hexdigest()[:8]}-nodes"
