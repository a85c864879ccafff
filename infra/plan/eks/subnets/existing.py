"""Existing subnets for an EKS cluster and its nodes: the use of each, and the problems.

Only the account knows their zones: the program and `slicewright doctor` ask it, and judge here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.infra.plan.model.clusters import EksClusterPlan


@dataclass(frozen=True, kw_only=True)
class ExistingSubnet:
    id: str
    vpc: str
    zone: str
    zone_id: str
    gives_public_addresses: bool
    """Whether instances that start in it get one."""
    free_addresses: int


def misfits(cluster: EksClusterPlan, subnets: Sequence[ExistingSubnet]) -> list[str]:
    """Reasons why cluster and pools cannot be in these subnets, each with its remedy."""
    reasons = []
    if len({subnet.vpc for subnet in subnets}) > 1:
        listed = ", ".join(f"{s.id} is in {s.vpc}" for s in subnets)
        reasons.append(f"a cluster is in one VPC, and these are in several: {listed}")
    choices = ", ".join(f"{s.id} in {s.zone} ({s.zone_id})" for s in subnets) or "there is none"
    return reasons + [
        f"none of them is in {zone}, which the cluster or a pool uses: {choices}; add a subnet, or "
        "write other zones"
        for zone, of_zone in _by_zone(cluster, subnets).items()
        if not of_zone
    ]


def cluster_subnet_ids(cluster: EksClusterPlan, subnets: Sequence[ExistingSubnet]) -> list[str]:
    """The ids of the control plane's subnets."""
    by_zone = _by_zone(cluster, subnets)
    return [subnet.id for zone in cluster.zones for subnet in by_zone[zone]]


def node_subnet_ids(
    cluster: EksClusterPlan, subnets: Sequence[ExistingSubnet]
) -> Mapping[str, Sequence[str]]:
    """Zone -> the ids of the nodes' subnets in it: only the private ones if the zone has any."""
    return {zone: _private(of_zone) for zone, of_zone in _by_zone(cluster, subnets).items()}


def _by_zone(
    cluster: EksClusterPlan, subnets: Sequence[ExistingSubnet]
) -> Mapping[str, list[ExistingSubnet]]:
    ordered = sorted(subnets, key=lambda s: s.id)
    return {
        zone: [s for s in ordered if zone in (s.zone, s.zone_id)]
        for zone in (*cluster.zones, *cluster.pool_zones)
    }


def _private(subnets: Sequence[ExistingSubnet]) -> list[str]:
    private = [s.id for s in subnets if not s.gives_public_addresses]
    return private or [s.id for s in subnets]
