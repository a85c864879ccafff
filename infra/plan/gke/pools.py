"""Plans a GPU pool of GKE, by the rules of the GKE API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from slicewright.infra import stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.findings import Checked, Stated, listed, refuse, rule
from slicewright.infra.plan.fractional.engines import engine_of
from slicewright.infra.plan.gke.capacity import (
    check_location_policy,
    check_placement,
    gke_capacity,
    gke_upgrade,
    repaired,
)
from slicewright.infra.plan.gke.gpu_direct import GPU_NETWORK_LABEL, check_gpu_direct, gpu_networks
from slicewright.infra.plan.gke.gpu_network import DRANET_LABELS, check_dranet
from slicewright.infra.plan.gke.labels import check_pool_labels
from slicewright.infra.plan.gke.node_counts import check_counts
from slicewright.infra.plan.gpu_operator.drivers import gke_driver, operator_driver, rolled_driver
from slicewright.infra.plan.machines.machine_types import machine_of
from slicewright.infra.plan.machines.regions import check_gcp_zones
from slicewright.infra.plan.model.clusters import GpuNetwork
from slicewright.infra.plan.model.nodes import OPERANDS_LABEL, GpuMachine, SharingStrategy
from slicewright.infra.plan.model.offers import Offer, ReplicatedResource
from slicewright.infra.plan.model.pools import GkePoolPlan, GkeSettings
from slicewright.infra.plan.pools.capacity import check_offered
from slicewright.infra.plan.pools.pool import SYSTEM_PODS, pool_plan

_MOST_LABEL_CHARACTERS = 1024
_STRATEGY: Final[Mapping[SharingStrategy, Literal["TIME_SHARING", "MPS"]]] = {
    "time-slicing": "TIME_SHARING",
    "mps": "MPS",
}


@dataclass(frozen=True, kw_only=True)
class ClusterPlace:
    """The place of a pool's cluster.

    region: as in the catalog; None if it is not there. zone: None if the cluster is regional.
    """

    region: str | None
    zone: str | None


def gke_pool(
    fleet: stack_file.GkeFleet,
    operator: stack_file.GpuOperator | None,
    i: int,
    place: ClusterPlace,
    stated: Stated,
) -> Checked[GkePoolPlan | None]:
    """operator: the GPU operator of the cluster. None if no pool uses it."""
    pool, path = fleet.node_pools[i], ("node_pools", i)
    zones = yield from _zones(fleet, pool, path, place, stated)
    capacity = yield from gke_capacity(pool, path, zones)
    yield from check_placement(pool, path, zones)
    upgrade = yield from gke_upgrade(pool, path)
    yield from check_location_policy(pool, path)
    management = yield from repaired(pool.management, pool.capacity, path)
    yield from _check_management(pool.management, fleet.cluster.release_channel, path)
    yield from _check_driver(pool, path, stated)
    gpu_machine = yield from machine_of(pool.machine_type, pool.gpu, "gke", path, stated)
    by_operator = operator is not None and isinstance(pool.partition, stack_file.Operator)
    common = yield from pool_plan(
        pool,
        path,
        gpu_machine,
        cloud="gke",
        strategy=operator.mig_strategy if operator else "mixed",
        driver=operator_driver(operator) if operator and by_operator else gke_driver(pool.driver),
        engine=engine_of(fleet),
        verification=fleet.verification,
        stated=stated,
    )
    if gpu_machine is not None:
        yield from _check_machine(pool, gpu_machine.machine, path)
        yield from check_dranet(pool, path, gpu_machine.machine, zones)
        yield from check_gpu_direct(pool, path, gpu_machine.machine)
    fixed_ssds = gpu_machine.machine.local_ssds if gpu_machine else None
    local_ssd = yield from _local_ssd(pool, path, fixed_ssds)
    if common is not None:
        yield from _check_pods(pool, path, common.offer)
    if gpu_machine is None or common is None or local_ssd is None or not zones:
        return None
    labels = {**common.labels, **_network_labels(pool, fleet)}
    if operator is not None and not by_operator:
        # GKE's driver and device plugin are on these nodes.
        labels[OPERANDS_LABEL] = "false"
    yield from _check_label_length(labels, path)
    settings = _settings(
        pool,
        gpu_machine,
        zones=zones,
        capacity=capacity,
        local_ssd=local_ssd,
        management=management,
        upgrade=upgrade,
        sharing=() if by_operator else common.offer.sharing,
        networks=gpu_networks(pool.gpu_network, fleet.cluster.gpu_networks),
    )
    driver_version = rolled_driver(operator) if operator and by_operator else None
    return replace(common, labels=labels, driver_version=driver_version).with_settings(settings)


@rule("gke-pool-zones")
def _zones(
    fleet: stack_file.GkeFleet,
    pool: stack_file.GkePool,
    path: stack_file.Path,
    place: ClusterPlace,
    stated: Stated,
) -> Checked[tuple[str, ...]]:
    """The pool's zones: the stated ones, or a zonal cluster's. Empty if they are missing."""
    location = ("cluster", "location")
    if pool.zones is None and place.zone is None and stated.has(location):
        yield refuse(
            (*path, "zones"),
            f"is required in a regional cluster: GKE would create the pool's nodes in "
            f"three zones of {fleet.cluster.location}",
            f"name zones that have the machine type, for example [{fleet.cluster.location}-a]",
            "GKE API, NodePool.locations",
        )
    zones = pool.zones or ((place.zone,) if place.zone else ())
    yield from check_gcp_zones(pool.zones or (), place.region, (*path, "zones"), stated)
    if zones and stated.has((*path, "zones"), location):
        yield from check_counts(pool.nodes, len(zones), (*path, "nodes"))
    return zones


def _network_labels(pool: stack_file.GkePool, fleet: stack_file.GkeFleet) -> Mapping[str, str]:
    """Labels of nodes with networks between their GPUs."""
    if pool.gpu_network == "dranet":
        return DRANET_LABELS
    if gpu_networks(pool.gpu_network, fleet.cluster.gpu_networks):
        return {GPU_NETWORK_LABEL: str(pool.gpu_network)}
    return {}


def _settings(
    pool: stack_file.GkePool,
    gpu_machine: GpuMachine,
    *,
    zones: tuple[str, ...],
    capacity: stack_file.Capacity,
    local_ssd: stack_file.LocalSsd,
    management: stack_file.Management,
    upgrade: stack_file.Upgrade,
    sharing: Sequence[ReplicatedResource],
    networks: tuple[GpuNetwork, ...],
) -> GkeSettings:
    """sharing: by GKE's own device plugin."""
    by_operator = isinstance(pool.partition, stack_file.Operator)
    return GkeSettings(
        machine=gpu_machine.machine,
        zones=zones,
        capacity=capacity,
        accelerator=gpu_machine.accelerator,
        partition_size=pool.partition.profile
        if isinstance(pool.partition, stack_file.Native)
        else None,
        sharing_strategy=_STRATEGY[sharing[0].strategy] if sharing else None,
        shared_clients=sharing[0].replicas if sharing else None,
        driver="INSTALLATION_DISABLED" if by_operator else pool.driver,
        image_type=pool.image_type,
        disk=pool.disk,
        local_ssd=local_ssd,
        max_pods_per_node=pool.max_pods_per_node,
        resource_labels=pool.resource_labels,
        features=pool.features,
        management=management,
        upgrade=upgrade,
        location_policy=pool.location_policy,
        placement=pool.placement,
        placement_policy=pool.placement_policy,
        gpu_network=pool.gpu_network,
        gpu_networks=networks,
    )


@rule("gke-auto-upgrade")
def _check_management(
    management: stack_file.Management, channel: str, path: stack_file.Path
) -> Checked[None]:
    if not management.auto_upgrade:
        yield refuse(
            (*path, "management", "auto_upgrade"),
            f"GKE upgrades the nodes of every cluster in a release channel, and this one is in "
            f"{channel}",
            "leave it out, or write true",
            "rancher/rancher #32282",
        )


@rule("gke-machine")
def _check_machine(
    pool: stack_file.GkePool, machine: Machine, path: stack_file.Path
) -> Checked[None]:
    yield from check_offered(pool.capacity, machine, path)
    if machine.boot_disks is not None and pool.disk.type not in machine.boot_disks:
        yield refuse(
            (*path, "disk", "type"),
            f"{machine.name} cannot boot from {pool.disk.type}",
            f"write {' or '.join(machine.boot_disks)}",
            machine.source,
        )
    if machine.needs_gvnic and not pool.features.gvnic:
        yield refuse(
            (*path, "features", "gvnic"),
            f"{machine.name} needs gVNIC",
            "write true, or leave it out",
            machine.source,
        )
    yield from _check_features(pool, path)
    choices = machine.local_ssd_choices
    disks = pool.local_ssd.ephemeral + pool.local_ssd.raw if pool.local_ssd else 0
    if choices is not None and disks not in (0, *choices):
        yield refuse(
            (*path, "local_ssd"),
            f"{machine.name} takes {listed(choices)} local SSDs, not {disks}",
            f"write one of {listed(choices)}, or leave it out",
            "Compute Engine docs, choose a valid number of Local SSD disks",
        )


@rule("gke-features")
def _check_features(pool: stack_file.GkePool, path: stack_file.Path) -> Checked[None]:
    if pool.features.fast_socket and not pool.features.gvnic:
        yield refuse(
            (*path, "features", "fast_socket"),
            "fast_socket needs gVNIC",
            "write gvnic: true, or fast_socket: false",
            "GKE docs, NCCL Fast Socket",
        )
    if pool.features.gcfs and pool.image_type != "COS_CONTAINERD":
        yield refuse(
            (*path, "features", "gcfs"),
            f"image streaming needs COS_CONTAINERD, and the pool has {pool.image_type}",
            "write false, or image_type: COS_CONTAINERD",
            "GKE docs, image streaming",
        )
    yield from check_pool_labels(pool.resource_labels, path)


@rule("gke-label-length")
def _check_label_length(labels: Mapping[str, str], path: stack_file.Path) -> Checked[None]:
    """labels: with slicewright's own."""
    length = sum(len(key) + len(value) for key, value in labels.items())
    if length > _MOST_LABEL_CHARACTERS:
        yield refuse(
            (*path, "labels"),
            f"keys and values have {length} characters in all, with slicewright's own labels: "
            f"GKE allows {_MOST_LABEL_CHARACTERS}",
            f"shorten them by {length - _MOST_LABEL_CHARACTERS}",
            "GKE API, NodeConfig.labels",
        )


@rule("gke-driver")
def _check_driver(pool: stack_file.GkePool, path: stack_file.Path, stated: Stated) -> Checked[None]:
    by_operator = isinstance(pool.partition, stack_file.Operator)
    # An invalid mode, such as EKS's boot, may have been read as operator.
    if by_operator and stated.has((*path, "partition")) and "driver" in pool.model_fields_set:
        yield refuse(
            (*path, "driver"),
            "GKE installs no driver on nodes that the NVIDIA GPU Operator manages",
            "leave it out",
            "GKE docs, NVIDIA GPU Operator",
            in_key=True,
        )
    elif pool.driver == "LATEST" and pool.image_type != "COS_CONTAINERD":
        yield refuse(
            (*path, "driver"),
            f"GKE offers driver LATEST on COS only, not on {pool.image_type}",
            "write DEFAULT",
            "GKE docs, drivers",
        )
    if (
        isinstance(pool.sharing, stack_file.FractionalSharing)
        and pool.image_type != "UBUNTU_CONTAINERD"
    ):
        yield refuse(
            (*path, "image_type"),
            f"engines for fractions do not run on {pool.image_type}",
            "write UBUNTU_CONTAINERD",
            "Project-HAMi/website #864",
        )


@rule("gke-pods-per-node")
def _check_pods(pool: stack_file.GkePool, path: stack_file.Path, offer: Offer) -> Checked[None]:
    if offer.advertised + SYSTEM_PODS > pool.max_pods_per_node:
        needed, kind = offer.advertised + SYSTEM_PODS, "replicas" if offer.sharing else "partitions"
        yield refuse(
            (*path, "max_pods_per_node"),
            f"{pool.max_pods_per_node} pods are too few for {offer.advertised} {kind} and "
            f"about {SYSTEM_PODS} others",
            f"write {needed} or more"
            if needed <= 256
            else "use fewer replicas: GKE allows 256 pods per node",
            "GKE API, maxPodsConstraint",
        )


@rule("gke-local-ssd")
def _local_ssd(
    pool: stack_file.GkePool, path: stack_file.Path, fixed: int | None
) -> Checked[stack_file.LocalSsd | None]:
    """The stated use of local SSDs. By default all of a machine type's are ephemeral storage."""
    if pool.local_ssd is None:
        return stack_file.LocalSsd(ephemeral=fixed or 0)
    local_ssd = pool.local_ssd
    if local_ssd.ephemeral and local_ssd.raw:
        yield refuse(
            (*path, "local_ssd"),
            "GKE uses a node's local SSDs either for ephemeral storage or as raw disks",
            "leave one out",
            "GKE API",
        )
        return None
    if fixed is not None and local_ssd.ephemeral + local_ssd.raw != fixed:
        yield refuse(
            (*path, "local_ssd"),
            f"{pool.machine_type} has {fixed} local SSDs, not "
            f"{local_ssd.ephemeral + local_ssd.raw}",
            f"write {{ephemeral: {fixed}}} or {{raw: {fixed}}}" if fixed else "leave it out",
            "cluster-toolkit",
        )
        return None
    return local_ssd
