"""Notes on a cluster and its pools on GKE, to read before `pulumi up`."""

from __future__ import annotations

from slicewright.infra.plan.gke.encryption import key_notes
from slicewright.infra.plan.gke.gpu_direct import gpu_direct_notes
from slicewright.infra.plan.gke.gpu_network import dranet_notes
from slicewright.infra.plan.gke.monitoring import monitoring_notes
from slicewright.infra.plan.gke.network import network_notes
from slicewright.infra.plan.gke.node_counts import first_nodes
from slicewright.infra.plan.model.fleets import GkeFleetPlan
from slicewright.infra.plan.model.pools import GkePoolPlan
from slicewright.infra.stack_file import (
    FLEX_START_HOURS,
    BlueGreen,
    FlexStart,
    GkeOnDemand,
    GkeReservation,
    GkeSpot,
    Queued,
)


def cluster_notes(fleet: GkeFleetPlan) -> list[str]:
    return [
        *network_notes(fleet.cluster),
        *key_notes(fleet.cluster),
        *monitoring_notes(fleet),
        *dranet_notes(fleet),
        *gpu_direct_notes(fleet),
    ]


def pool_notes(pool: GkePoolPlan) -> list[str]:
    return [
        *_begins_with(pool),
        *_native_on_arm(pool),
        *_reserved(pool),
        *_run_time(pool),
        *_nodes_for_upgrades(pool),
        *_latest_driver(pool),
    ]


def _begins_with(pool: GkePoolPlan) -> list[str]:
    zones = len(pool.settings.zones)
    first = first_nodes(pool.nodes, zones) * zones
    if not pool.nodes.autoscaled or first == pool.nodes.min:
        return []
    return [
        f"pool {pool.name}: starts with {first} nodes, the same number in each zone, and GKE's "
        f"autoscaler removes unused ones beyond {pool.nodes.min}"
    ]


def _native_on_arm(pool: GkePoolPlan) -> list[str]:
    """GoogleCloudPlatform/container-engine-accelerators has sizes of GB200, and its images no
    published list of architectures.
    """
    if pool.settings.partition_size is None or pool.settings.machine.architecture != "arm64":
        return []
    return [
        f"pool {pool.name}: GKE's partitioner knows the sizes of {pool.gpu.name}, but whether its "
        "image runs on arm64 is not published; with partition: {mode: operator, …} NVIDIA's "
        "operator partitions"
    ]


def _reserved(pool: GkePoolPlan) -> list[str]:
    if (
        not isinstance(pool.settings.capacity, GkeReservation)
        or pool.settings.capacity.fallback != "on-demand"
    ):
        return []
    return [
        f"pool {pool.name}: if no reservation matches, or all are in use, GKE creates on-demand "
        "machines; to fail instead, write fallback: none, or name the reservation"
    ]


def _run_time(pool: GkePoolPlan) -> list[str]:
    if isinstance(pool.settings.capacity, FlexStart | Queued):
        hours = pool.settings.capacity.max_run_hours or FLEX_START_HOURS
    elif (
        isinstance(pool.settings.capacity, GkeOnDemand | GkeSpot)
        and pool.settings.capacity.max_run_hours
    ):
        hours = pool.settings.capacity.max_run_hours
    else:
        return []
    return [f"pool {pool.name}: GKE ends each node {hours} hours after its creation"]


def _nodes_for_upgrades(pool: GkePoolPlan) -> list[str]:
    """Source: GKE docs, node upgrades and quota: nodes for an upgrade come from it too."""
    more = isinstance(pool.settings.upgrade, BlueGreen) or pool.settings.upgrade.max_surge > 0
    if not more or not isinstance(pool.settings.capacity, GkeReservation):
        return []
    return [
        f"pool {pool.name}: an upgrade needs more machines than the pool has, reserved ones too"
    ]


def _latest_driver(pool: GkePoolPlan) -> list[str]:
    if pool.settings.driver != "LATEST":
        return []
    return [
        f"pool {pool.name}: driver LATEST changes without notice; the agents report what they find"
    ]
