"""The answer as `node_pools` of a stack file, which `check` accepts unchanged."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

import yaml

from slicewright.infra import catalog
from slicewright.infra.plan.demand.node_types import price_sources
from slicewright.infra.plan.demand.offers import CloudFleet, region_of, zones_for
from slicewright.infra.plan.machines.boot_disks import required_boot_disk
from slicewright.infra.planner import Answer, Pool, Problem
from slicewright.infra.planner.certificate import certificate
from slicewright.infra.stack_file import GkeFleet

_LONGEST_NAME: Final = 40


def node_pools(fleet: CloudFleet, answer: Answer) -> list[dict[str, Any]]:
    """Returns the pools, each with a name of its machine type and layout."""
    return [node_pool(fleet, pool) for pool in answer.pools]


def fragment(
    fleet: CloudFleet, problem: Problem, answer: Answer, pools: list[dict[str, Any]]
) -> str:
    """Returns YAML: the certificate and the sources of prices as comments, and `node_pools`. It has
    no date of its own, so that the same input gives the same bytes.
    """
    lines = [f"# {name}: {value}" for name, value in certificate(problem, answer).items()]
    for name, source in price_sources(fleet, answer).items():
        lines.append(f"# price of {name}: {source}")
    text = yaml.safe_dump({"node_pools": pools}, sort_keys=False, width=100)
    return "\n".join(["# Planned by slicewright optimise.", *lines, text])


def node_pool(fleet: CloudFleet, pool: Pool) -> dict[str, Any]:
    """Returns a new pool as a stack file has it."""
    node_pool: dict[str, Any] = {
        "name": _name(pool),
        "machine_type": pool.node_type.name,
        "nodes": {"count": pool.nodes},
    }
    if zones := _pool_zones(fleet, pool):
        node_pool["zones"] = zones
    if isinstance(fleet, GkeFleet):
        machine = catalog.load().machines["gke", pool.node_type.name]
        if disk := required_boot_disk(machine):
            node_pool["disk"] = {"type": disk}
        if pool.layout:
            (profile,) = pool.layout
            node_pool["partition"] = {"mode": "native", "profile": profile}
    elif pool.layout:
        node_pool["partition"] = {"mode": "operator", "layout": dict(pool.layout)}
    return node_pool


def _name(pool: Pool) -> str:
    """Returns a DNS label, such as `p4de-24xlarge-3g-40gb-4x1g-10gb`."""
    parts = [
        f"{count}x{profile}" if count > 1 else profile
        for profile, count in sorted(pool.layout.items(), reverse=True)
    ]
    text = "-".join([pool.node_type.name, *(parts or ["whole"])])
    label = re.sub(r"[^a-z0-9]+", "-", text.lower())
    return label if len(label) <= _LONGEST_NAME else _shortened(label, pool)


def _shortened(label: str, pool: Pool) -> str:
    """Returns the label without the memory of the profiles, or its start with a hash of it all."""
    short = re.sub(r"-[0-9]+gb", "", label)
    if len(short) <= _LONGEST_NAME:
        return short
    content = f"{pool.node_type.name} {sorted(pool.layout.items())}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:6]
    return f"{short[: _LONGEST_NAME - 7]}-{digest}"


def _pool_zones(fleet: CloudFleet, pool: Pool) -> Sequence[str] | None:
    """Returns one zone with the machine type. None: by default the pool has one, or it is unknown.

    A pool has the zone of a zonal cluster on GKE, and on EKS the first zone of the cluster.
    """
    zones = zones_for(fleet, catalog.load().machines[fleet.cloud, pool.node_type.name])
    if isinstance(fleet, GkeFleet):
        by_default = fleet.cluster.location if fleet.cluster.location != region_of(fleet) else None
    else:
        by_default = (fleet.cluster.zones or (None,))[0]
    return None if not zones or by_default in zones else [zones[0]]
