"""Existing subnets for an EKS cluster and its nodes: the use of each, and the problems.

Only the account knows their zones: the program and `slicewright doctor` ask it, and judge here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.plan.model.clusters import EksClusterPlan


@dataclass(frozen=True, kw_only=True)
class ExistingSubnet:
    id: str
    vpc: str
    zone: str
    zone_id: str
    gives_public_addresses: bool
    """Whether instances that start in it get one."""
    free_addresses: int


def misfits(cluster: EksClusterPlan, there: Sequence[ExistingSubnet]) -> list[str]:
    """Reasons why cluster and pools cannot be in the subnets `there`, each with its remedy."""
    found = []
    if len({subnet.vpc for subnet in there}) > 1:
        listed = ", ".join(f"{s.id} is in {s.vpc}" for s in there)
        found.append(f"a cluster is in one VPC, and these are in several: {listed}")
    known = ", ".join(f"{s.id} in {s.zone} ({s.zone_id})" for s in there) or "there is none"
    return found + [
        f"none of them is in {zone}, which the cluster or a pool uses: {known}; add a subnet, or "
        "write other zones"
        for zone, subnets in _by_zone(cluster, there).items()
        if not subnets
    ]


def of_cluster(cluster: EksClusterPlan, there: Sequence[ExistingSubnet]) -> list[str]:
    """The ids of the control plane's subnets."""
    by_zone = _by_zone(cluster, there)
    return [subnet.id for zone in cluster.zones for subnet in by_zone[zone]]


def of_nodes(
    cluster: EksClusterPlan, there: Sequence[ExistingSubnet]
) -> Mapping[str, Sequence[str]]:
    """Zone -> the ids of the nodes' subnets in it: only the private ones if the zone has any."""
    return {zone: _private(subnets) for zone, subnets in _by_zone(cluster, there).items()}


def _by_zone(
    cluster: EksClusterPlan, there: Sequence[ExistingSubnet]
) -> Mapping[str, list[ExistingSubnet]]:
    ordered = sorted(there, key=lambda s: s.id)
    return {
        zone: [s for s in ordered if zone in (s.zone, s.zone_id)]
        for zone in (*cluster.zones, *cluster.pool_zones)
    }


def _private(subnets: Sequence[ExistingSubnet]) -> list[str]:
    private = [s.id for s in subnets if not s.gives_public_addresses]
    return private or [s.id for s in subnets]
