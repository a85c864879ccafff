"""Plans a GKE fleet, by the rules of the GKE API."""

from __future__ import annotations

import hashlib
import re

from infra import catalog, spec
from infra.plan.findings import Checked, Stated, each, refuse
from infra.plan.gke.addresses import check_own_network
from infra.plan.gke.encryption import check_keys
from infra.plan.gke.gpu_direct import check_gpu_networks
from infra.plan.gke.gpu_network import check_dranet_version
from infra.plan.gke.labels import check_cluster_labels
from infra.plan.gke.maintenance import check_maintenance
from infra.plan.gke.monitoring import plan_logging, plan_monitoring
from infra.plan.gke.network import check_control_plane, plan_network
from infra.plan.gke.node_counts import check_counts
from infra.plan.gke.pools import gke_pool
from infra.plan.gpu_operator.device_plugin import check_plugin
from infra.plan.gpu_operator.settings import check_on_gke, check_operator, resolved
from infra.plan.machines.regions import check_gcp_zones, check_gke_version, gcp_region
from infra.plan.model.clusters import GkeClusterPlan
from infra.plan.model.fleets import CommonPlanner, GkeFleetPlan
from infra.plan.pools.clusters import check_existing, system_pool


def plan_gke(
    fleet: spec.GkeFleet, stated: Stated, plan_common: CommonPlanner
) -> Checked[GkeFleetPlan | None]:
    location = fleet.cluster.location
    region = re.sub(r"-[a-z]$", "", location)
    own_zone = location if location != region else None
    catalog_region = yield from gcp_region(location)
    yield from check_gke_version(fleet.cluster)
    yield from check_dranet_version(fleet)
    yield from check_gpu_networks(fleet, stated)
    yield from check_existing(fleet.cluster)
    network = yield from plan_network(fleet.cluster.network)
    yield from check_control_plane(fleet.cluster.control_plane)
    yield from check_maintenance(fleet.cluster.maintenance)
    monitoring = yield from plan_monitoring(fleet.cluster.monitoring)
    logging = yield from plan_logging(fleet.cluster.logging)
    yield from check_cluster_labels(fleet.cluster.resource_labels)
    if stated.has(("cluster", "location")):
        yield from check_keys(fleet.cluster, region)
    by_operator = any(isinstance(p.partition, spec.Operator) for p in fleet.node_pools)
    if (
        fleet.gpu_operator is not None
        and not by_operator
        and stated.has_for_all(fleet.node_pools, "partition")
    ):
        yield refuse(
            ("gpu_operator",),
            "no pool uses it: GKE's own driver and device plugin are in all of them",
            "leave it out, or write partition: {mode: operator, …} in a pool",
            "GKE docs, NVIDIA GPU Operator",
            in_key=True,
        )
    if fleet.gpu_operator is not None:
        yield from check_operator(
            fleet.gpu_operator, "gke", stated, new_cluster=not fleet.cluster.existing
        )
    operator = resolved(fleet.gpu_operator or spec.GpuOperator(), "gke") if by_operator else None
    if operator is not None and stated.has_for_all(fleet.node_pools, "image_type"):
        yield from check_on_gke(
            operator,
            [p.image_type for p in fleet.node_pools if isinstance(p.partition, spec.Operator)],
        )
    pools = yield from each(
        gke_pool(fleet, operator, i, catalog_region, own_zone, stated)
        for i in range(len(fleet.node_pools))
    )
    built = tuple(pool for pool in pools if pool is not None)
    # An existing cluster has nodes for the controller. More are made on request.
    needs_system_pool = not fleet.cluster.existing or "system_pool" in fleet.model_fields_set
    if (
        fleet.allow_unlisted
        and needs_system_pool
        and not (catalog_region or own_zone or fleet.system_pool.zones)
    ):
        yield refuse(
            ("system_pool", "zones"),
            f"is missing, and the zones of {region}, of which it would be in the first, are not "
            "known",
            f"write [{region}-a], or another",
        )
    # The default does not depend on the pools: their order must not move it.
    zones = fleet.system_pool.zones or (
        (own_zone,)
        if own_zone
        else catalog.gcp().zones[catalog_region][:1]
        if catalog_region
        else ()
    )
    yield from check_gcp_zones(
        fleet.system_pool.zones or (), catalog_region, ("system_pool", "zones"), stated
    )
    system = yield from system_pool(fleet.system_pool, "gke", zones)
    if zones:
        yield from check_counts(fleet.system_pool.nodes, len(zones), ("system_pool", "nodes"))
    yield from check_own_network(fleet, system if needs_system_pool else None, built, stated)
    yield from check_plugin(fleet.gpu_operator or spec.GpuOperator(), built, stated)
    common = yield from plan_common(built)
    if len(built) != len(pools) or (needs_system_pool and system is None):
        return None
    return GkeFleetPlan(
        **common,
        cluster=GkeClusterPlan(
            name=fleet.cluster.name,
            location=location,
            region=region,
            version=fleet.cluster.version,
            release_channel=fleet.cluster.release_channel,
            network=network,
            gpu_networks=max((pool.settings.gpu_networks for pool in built), key=len, default=()),
            private_nodes=fleet.cluster.private_nodes,
            control_plane=fleet.cluster.control_plane,
            maintenance=fleet.cluster.maintenance,
            monitoring=monitoring,
            logging=logging,
            kms_key=fleet.cluster.kms_key,
            secrets_key=fleet.cluster.secrets_key,
            resource_labels=dict(sorted(fleet.cluster.resource_labels.items())),
            existing=fleet.cluster.existing,
            node_account_id=_account_id(fleet.cluster.name),
        ),
        system=system if needs_system_pool else None,
        pools=built,
        operator=operator,
    )


def _account_id(cluster: str) -> str:
    account_id = f"{cluster}-nodes"
    if 6 <= len(account_id) <= 30:
        return account_id
    return f"{cluster[:15].rstrip('-')}-{hashlib.sha256(cluster.encode()).hexdigest()[:8]}-nodes"
