"""Plans a GKE fleet, by the rules of the GKE API."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from slicewright.infra import catalog, stack_file
from slicewright.infra.plan.findings import Checked, Stated, each, refuse, rule
from slicewright.infra.plan.gke.addresses import check_own_network
from slicewright.infra.plan.gke.encryption import check_keys
from slicewright.infra.plan.gke.gpu_direct import check_gpu_networks
from slicewright.infra.plan.gke.gpu_network import check_dranet_version
from slicewright.infra.plan.gke.labels import check_cluster_labels
from slicewright.infra.plan.gke.maintenance import check_maintenance
from slicewright.infra.plan.gke.monitoring import plan_logging, plan_monitoring
from slicewright.infra.plan.gke.network import check_control_plane, plan_network
from slicewright.infra.plan.gke.node_counts import check_counts
from slicewright.infra.plan.gke.pools import ClusterPlace, gke_pool
from slicewright.infra.plan.gpu_operator.device_plugin import check_plugin
from slicewright.infra.plan.gpu_operator.settings import check_on_gke, check_operator, resolved
from slicewright.infra.plan.machines.kubernetes_versions import check_gke_version
from slicewright.infra.plan.machines.regions import (
    check_gcp_zones,
    gcp_region,
    region_of_location,
)
from slicewright.infra.plan.model.clusters import GkeClusterPlan
from slicewright.infra.plan.model.fleets import CommonPlanner, GkeFleetPlan
from slicewright.infra.plan.model.pools import SystemPoolPlan
from slicewright.infra.plan.pools.clusters import check_existing, system_pool


def plan_gke(
    fleet: stack_file.GkeFleet, stated: Stated, plan_common: CommonPlanner
) -> Checked[GkeFleetPlan | None]:
    location = fleet.cluster.location
    region = region_of_location(location)
    catalog_region = yield from gcp_region(location)
    place = ClusterPlace(region=catalog_region, zone=location if location != region else None)
    cluster = yield from _plan_cluster(fleet, region, stated)
    operator = yield from _plan_operator(fleet, stated)
    pools = yield from each(
        gke_pool(fleet, operator, i, place, stated) for i in range(len(fleet.node_pools))
    )
    built = tuple(pool for pool in pools if pool is not None)
    # An existing cluster has nodes for the controller. More are made on request.
    needs_system_pool = not fleet.cluster.existing or "system_pool" in fleet.model_fields_set
    system = yield from _plan_system_pool(fleet, region, place, needs_system_pool, stated)
    yield from check_own_network(fleet, system if needs_system_pool else None, built, stated)
    yield from check_plugin(fleet.gpu_operator or stack_file.GpuOperator(), built, stated)
    common = yield from plan_common(built)
    if len(built) != len(pools) or (needs_system_pool and system is None):
        return None
    networks = max((pool.settings.gpu_networks for pool in built), key=len, default=())
    return GkeFleetPlan(
        **common,
        cluster=replace(cluster, gpu_networks=networks),
        system=system if needs_system_pool else None,
        pools=built,
        operator=operator,
    )


def _plan_cluster(
    fleet: stack_file.GkeFleet, region: str, stated: Stated
) -> Checked[GkeClusterPlan]:
    """The cluster, without the networks between GPUs, which follow from the pools."""
    cluster = fleet.cluster
    yield from check_gke_version(cluster)
    yield from check_dranet_version(fleet)
    yield from check_gpu_networks(fleet, stated)
    yield from check_existing(cluster)
    network = yield from plan_network(cluster.network)
    yield from check_control_plane(cluster.control_plane)
    yield from check_maintenance(cluster.maintenance)
    monitoring = yield from plan_monitoring(cluster.monitoring)
    logging = yield from plan_logging(cluster.logging)
    yield from check_cluster_labels(cluster.resource_labels)
    if stated.has(("cluster", "location")):
        yield from check_keys(cluster, region)
    return GkeClusterPlan(
        name=cluster.name,
        location=cluster.location,
        region=region,
        version=cluster.version,
        release_channel=cluster.release_channel,
        network=network,
        gpu_networks=(),
        private_nodes=cluster.private_nodes,
        control_plane=cluster.control_plane,
        maintenance=cluster.maintenance,
        monitoring=monitoring,
        logging=logging,
        kms_key=cluster.kms_key,
        secrets_key=cluster.secrets_key,
        resource_labels=dict(sorted(cluster.resource_labels.items())),
        existing=cluster.existing,
        node_account_id=_account_id(cluster.name),
    )


@rule("gke-unused-operator")
def _plan_operator(
    fleet: stack_file.GkeFleet, stated: Stated
) -> Checked[stack_file.GpuOperator | None]:
    """The GPU operator. None if GKE's driver and device plugin are in all pools."""
    image_types = [
        p.image_type for p in fleet.node_pools if isinstance(p.partition, stack_file.Operator)
    ]
    stated_operator = fleet.gpu_operator
    if (
        stated_operator is not None
        and not image_types
        and stated.has_for_all(fleet.node_pools, "partition")
    ):
        yield refuse(
            ("gpu_operator",),
            "no pool uses it: all of them have GKE's own driver and device plugin",
            "leave it out, or write partition: {mode: operator, …} in a pool",
            "GKE docs, NVIDIA GPU Operator",
            in_key=True,
        )
    if stated_operator is not None:
        new_cluster = not fleet.cluster.existing
        yield from check_operator(stated_operator, "gke", stated, new_cluster=new_cluster)
    if not image_types:
        return None
    operator = resolved(stated_operator or stack_file.GpuOperator(), "gke")
    if stated.has_for_all(fleet.node_pools, "image_type"):
        yield from check_on_gke(operator, image_types)
    return operator


@rule("gke-system-pool-zones")
def _plan_system_pool(
    fleet: stack_file.GkeFleet, region: str, place: ClusterPlace, needed: bool, stated: Stated
) -> Checked[SystemPoolPlan | None]:
    """region: the cluster's, also if it is not in the catalog."""
    pool, path = fleet.system_pool, ("system_pool", "zones")
    if fleet.allow_unlisted and needed and not (place.region or place.zone or pool.zones):
        yield refuse(
            path,
            f"is required: the zones of {region} are unknown, so no default zone can be chosen",
            f"write [{region}-a], or another",
        )
    # The default does not depend on the pools: their order must not move it.
    zones = pool.zones or (
        (place.zone,)
        if place.zone
        else catalog.gcp().zones[place.region][:1]
        if place.region
        else ()
    )
    yield from check_gcp_zones(pool.zones or (), place.region, path, stated)
    system = yield from system_pool(pool, "gke", zones)
    if zones:
        yield from check_counts(pool.nodes, len(zones), ("system_pool", "nodes"))
    return system


def _account_id(cluster: str) -> str:
    account_id = f"{cluster}-nodes"
    if 6 <= len(account_id) <= 30:
        return account_id
    return f"{cluster[:15].rstrip('-')}-{hashlib.sha256(cluster.encode()).hexdigest()[:8]}-nodes"
