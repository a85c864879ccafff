"""GKE's requirements of a pool for each kind of capacity, decided to the last value."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.pools.capacity import check_capacity

_TOOLKIT = "GoogleCloudPlatform/cluster-toolkit modules/compute/gke-node-pool"
_STRATEGIES = "GKE docs, node pool upgrade strategies"
_MOST_AT_ONCE = 20
_COMPACT_FLEX = ("a3-ultragpu-", "a4-")
_FLEX = "Google Cloud docs, flex-start VMs"


@rule("gke-capacity")
def gke_capacity(
    pool: stack_file.GkePool, path: stack_file.Path, zones: tuple[str, ...]
) -> Checked[stack_file.Capacity]:
    """path, zones: of the pool."""
    yield from check_capacity(pool.capacity, "gke", path, zones)
    match pool.capacity:
        case stack_file.FlexStart():
            if isinstance(pool.nodes, stack_file.Fixed):
                yield refuse(
                    (*path, "nodes"),
                    "a flex-start pool cannot have a fixed number of nodes",
                    "write {min: 0, max: …}",
                    _TOOLKIT,
                )
            elif pool.nodes.min:
                yield refuse(
                    (*path, "nodes", "min"),
                    "GKE creates a flex-start pool without nodes, and adds them for waiting pods",
                    "write 0",
                    _FLEX,
                )
            # Whether it is offered otherwise is not known, so the catalog has no list of it.
            if pool.machine_type.startswith("a4x-"):
                yield refuse(
                    (*path, "capacity"),
                    f"{pool.machine_type} is not offered as flex-start",
                    "write a reservation",
                    _FLEX,
                )
        case stack_file.Queued():
            if isinstance(pool.nodes, stack_file.Fixed) or pool.nodes.min:
                yield refuse(
                    (*path, "nodes"),
                    "a queued pool starts at 0 nodes and adds them on request",
                    "write {min: 0, max: …}",
                    _TOOLKIT,
                )
        case stack_file.GkeReservation():
            return (yield from _reservation(pool.capacity, path))
        case _:
            pass
    return pool.capacity


@rule("gke-reservation")
def _reservation(
    reservation: stack_file.GkeReservation, path: stack_file.Path
) -> Checked[stack_file.Capacity]:
    """The reservation, with the fallback for when it is used up."""
    name = reservation.reservation
    if name is None:
        return stack_file.GkeReservation(fallback=reservation.fallback or "on-demand")
    if reservation.fallback == "on-demand":
        yield refuse(
            (*path, "capacity", "fallback"),
            f"has no effect with reservation {name}: GKE falls back only if no reservation is "
            "named",
            "leave it out, or leave out reservation",
            "GKE API, ReservationAffinity.consumeReservationType",
        )
    return stack_file.GkeReservation(reservation=name, fallback="none")


@rule("gke-placement")
def check_placement(
    pool: stack_file.GkePool, path: stack_file.Path, zones: tuple[str, ...]
) -> Checked[None]:
    """Nodes close to each other. zones: of the pool."""
    at = (*path, "placement")
    if pool.placement_policy is not None and pool.placement is None:
        yield refuse(
            (*path, "placement_policy"),
            "it takes effect with compact placement only",
            "write placement: compact too",
            "GKE API, PlacementPolicy",
        )
    if pool.placement is None:
        return
    if len(zones) > 1:
        yield refuse(
            at, "compact nodes are in one zone", "leave it out, or name one zone", _TOOLKIT
        )
    if isinstance(pool.capacity, stack_file.Queued):
        yield refuse(at, "queued nodes cannot be placed compactly", "leave it out", _TOOLKIT)
    if isinstance(pool.capacity, stack_file.FlexStart) and not pool.machine_type.startswith(
        _COMPACT_FLEX
    ):
        yield refuse(
            at,
            f"flex-start nodes of {pool.machine_type} cannot be placed compactly",
            "leave it out",
            "GKE docs, compact placement",
        )
    if pool.machine_type.startswith("n1-"):
        yield refuse(
            at,
            "Compute Engine places no N1 machines compactly",
            "leave it out",
            "Compute Engine docs, placement policies",
        )
    if isinstance(pool.upgrade, stack_file.BlueGreen):
        yield refuse(
            (*path, "upgrade"),
            "compact nodes cannot be upgraded blue-green",
            "write surge",
            _TOOLKIT,
        )


@rule("gke-upgrade")
def gke_upgrade(pool: stack_file.GkePool, path: stack_file.Path) -> Checked[stack_file.Upgrade]:
    """The upgrade, decided to the last value."""
    upgrade, at = pool.upgrade, (*path, "upgrade")
    if (
        isinstance(pool.capacity, stack_file.FlexStart | stack_file.Queued)
        and "upgrade" in pool.model_fields_set
    ):
        yield refuse(
            at,
            f"GKE upgrades {pool.capacity.mode} nodes in its own way: new nodes have the new "
            "version, and the others end when their time is over",
            "leave it out",
            _STRATEGIES,
        )
    match upgrade:
        case stack_file.Surge():
            together = upgrade.max_surge + upgrade.max_unavailable
            if not 1 <= together <= _MOST_AT_ONCE:
                yield refuse(
                    at,
                    f"max_surge and max_unavailable are {together} together, and GKE upgrades 1 to "
                    f"{_MOST_AT_ONCE} nodes at the same time",
                    "write {max_surge: 0, max_unavailable: 1}",
                    _STRATEGIES,
                )
            return upgrade
        case stack_file.BlueGreen():
            return upgrade


@rule("gke-location-policy")
def check_location_policy(pool: stack_file.GkePool, path: stack_file.Path) -> Checked[None]:
    if pool.location_policy is not None and isinstance(pool.nodes, stack_file.Fixed):
        yield refuse(
            (*path, "location_policy"),
            "applies to autoscaled pools, and this one has a fixed number of nodes",
            "leave it out, or write nodes: {min: …, max: …}",
            "GKE API, NodePoolAutoscaling",
        )


@rule("gke-auto-repair")
def repaired(
    management: stack_file.Management, capacity: stack_file.Capacity, path: stack_file.Path
) -> Checked[stack_file.Management]:
    """GKE cannot repair flex-start nodes, so auto_repair is off by default there."""
    if not isinstance(capacity, stack_file.FlexStart):
        return management
    if management.auto_repair and "auto_repair" in management.model_fields_set:
        yield refuse(
            (*path, "management", "auto_repair"),
            "flex-start nodes cannot be repaired",
            "write false",
            _TOOLKIT,
        )
    return stack_file.Management(auto_repair=False, auto_upgrade=management.auto_upgrade)
