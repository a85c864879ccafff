"""Which kinds of capacity a cloud has, and what each requires of the pool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from infra import spec
from infra.catalog import Machine
from infra.plan.findings import Checked, refuse

_GKE = "GoogleCloudPlatform/cluster-toolkit modules/compute/gke-node-pool"
_EKS = "EKS docs, managed node groups with capacity blocks"
_OTHER_CLOUD: Mapping[str, tuple[str, str]] = {
    # mode -> (the cloud that has it, the nearest on the other cloud)
    "flex-start": ("gke", "write spot, or a capacity-block"),
    "queued": ("gke", "write spot, or a capacity-block"),
    "capacity-block": ("eks", "write flex-start, queued, or a reservation"),
}
_EKS_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}|arn:[^:]+:resource-groups:.+")


def check_capacity(
    capacity: spec.Capacity,
    cloud: str,
    path: spec.Path,
    nodes: spec.Nodes,
    zones: Sequence[str],
) -> Checked[None]:
    """path: of the pool."""
    at = (*path, "capacity")
    owner, instead = _OTHER_CLOUD.get(capacity.mode, (cloud, ""))
    if owner != cloud:
        yield refuse(
            at,
            f"{capacity.mode} is available on {owner.upper()} only",
            instead,
            _GKE if owner == "gke" else _EKS,
        )
        return
    match capacity:
        case spec.OnDemand() | spec.Spot():
            pass
        case spec.FlexStart():
            if isinstance(nodes, spec.Fixed):
                yield refuse(
                    (*path, "nodes"),
                    "a flex-start pool cannot have a fixed number of nodes",
                    "write {min: 0, max: …}",
                    _GKE,
                )
        case spec.Queued():
            if isinstance(nodes, spec.Fixed) or nodes.min:
                yield refuse(
                    (*path, "nodes"),
                    "a queued pool starts at 0 nodes and adds them on request",
                    "write {min: 0, max: …}",
                    _GKE,
                )
        case spec.Reservation(reservation=name):
            if cloud == "eks" and name is not None and not _EKS_RESERVATION.fullmatch(name):
                yield refuse(
                    (*at, "reservation"),
                    f"{name} is not an AWS capacity reservation",
                    "write its ID (cr-…) or the ARN of its resource group",
                    "EC2 API, CapacityReservationTarget",
                )
        case spec.CapacityBlock():
            if len(zones) != 1:
                yield refuse(
                    (*path, "zones"), "a capacity block is in one zone", "write that zone", _EKS
                )


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
            _GKE,
        )
    return spec.Management(auto_repair=False, auto_upgrade=asked.auto_upgrade)


def check_offered(capacity: spec.Capacity, machine: Machine, path: spec.Path) -> Checked[None]:
    """Some machine types are offered with some kinds of capacity only: p5e in capacity blocks."""
    owner, _ = _OTHER_CLOUD.get(capacity.mode, (machine.cloud, ""))
    if (
        machine.capacity is not None
        and capacity.mode not in machine.capacity
        and owner == machine.cloud
    ):
        yield refuse(
            (*path, "capacity"),
            f"{machine.name} is not offered as {capacity.mode}",
            f"write {' or '.join(machine.capacity)}",
            machine.source,
        )
