"""The kinds of capacity of each cloud, and their requirements of the pool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slicewright.infra import stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.findings import Checked, refuse, rule

_GKE = "GoogleCloudPlatform/cluster-toolkit modules/compute/gke-node-pool"
_EKS = "EKS docs, managed node groups with capacity blocks"
_OTHER_CLOUD: Mapping[str, tuple[str, str]] = {
    # mode -> (the cloud that has it, the nearest on the other cloud)
    "flex-start": ("gke", "write spot, or a capacity-block"),
    "queued": ("gke", "write spot, or a capacity-block"),
    "capacity-block": ("eks", "write flex-start, queued, or a reservation"),
}
_EKS_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}|arn:[^:]+:resource-groups:.+")


@rule("capacity")
def check_capacity(
    capacity: stack_file.Capacity, cloud: str, path: stack_file.Path, zones: Sequence[str]
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
        case (
            stack_file.OnDemand() | stack_file.Spot() | stack_file.FlexStart() | stack_file.Queued()
        ):
            pass
        case stack_file.Reservation(reservation=name):
            if cloud == "eks" and name is not None and not _EKS_RESERVATION.fullmatch(name):
                yield refuse(
                    (*at, "reservation"),
                    f"{name} is not an AWS capacity reservation",
                    "write its ID (cr-…) or the ARN of its resource group",
                    "EC2 API, CapacityReservationTarget",
                )
            elif cloud == "eks" and name is not None and name.startswith("cr-") and len(zones) > 1:
                yield refuse(
                    (*path, "zones"),
                    f"{name} is in one zone, and nodes in others would not be launched",
                    "write that zone, or the ARN of a resource group with a reservation in each",
                    "EC2 user guide, On-Demand Capacity Reservations",
                )
        case stack_file.CapacityBlock():
            if len(zones) != 1:
                yield refuse(
                    (*path, "zones"), "a capacity block is in one zone", "write that zone", _EKS
                )


@rule("capacity-offer")
def check_offered(
    capacity: stack_file.Capacity, machine: Machine, path: stack_file.Path
) -> Checked[None]:
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
