"""What GKE requires of a pool for each kind of capacity, decided to the last value."""

from __future__ import annotations

from infra import spec
from infra.plan.capacity import check_capacity
from infra.plan.findings import Checked, refuse

_TOOLKIT = "GoogleCloudPlatform/cluster-toolkit modules/compute/gke-node-pool"
_FLEX = "Google Cloud docs, flex-start VMs"


def gke_capacity(
    pool: spec.GkePool, path: spec.Path, zones: tuple[str, ...]
) -> Checked[spec.Capacity]:
    """path, zones: of the pool."""
    yield from check_capacity(pool.capacity, "gke", path, zones)
    match pool.capacity:
        case spec.FlexStart():
            if isinstance(pool.nodes, spec.Fixed):
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
        case spec.Queued():
            if isinstance(pool.nodes, spec.Fixed) or pool.nodes.min:
                yield refuse(
                    (*path, "nodes"),
                    "a queued pool starts at 0 nodes and adds them on request",
                    "write {min: 0, max: …}",
                    _TOOLKIT,
                )
        case spec.GkeReservation():
            return (yield from _reservation(pool.capacity, path))
        case _:
            pass
    return pool.capacity


def _reservation(asked: spec.GkeReservation, path: spec.Path) -> Checked[spec.Capacity]:
    """With what happens where the reservation is used up."""
    name = asked.reservation
    if name is None:
        return spec.GkeReservation(fallback=asked.fallback or "on-demand")
    if asked.fallback == "on-demand":
        yield refuse(
            (*path, "capacity", "fallback"),
            f"machines come from {name} or not at all: GKE looks for others only where no "
            "reservation is named",
            "leave it out, or leave out reservation",
            "GKE API, ReservationAffinity.consumeReservationType",
        )
    return spec.GkeReservation(reservation=name, fallback="none")


def repaired(
    asked: spec.Management, capacity: spec.Capacity, path: spec.Path
) -> Checked[spec.Management]:
    """GKE cannot repair flex-start nodes, so auto_repair is off by default there."""
    if not isinstance(capacity, spec.FlexStart):
        return asked
    if asked.auto_repair and "auto_repair" in asked.model_fields_set:
        yield refuse(
            (*path, "management", "auto_repair"),
            "flex-start nodes cannot be repaired",
            "write false",
            _TOOLKIT,
        )
    return spec.Management(auto_repair=False, auto_upgrade=asked.auto_upgrade)
