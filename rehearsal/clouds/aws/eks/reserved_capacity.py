"""Instances of node groups in capacity reservations and capacity blocks.

Source of the errors: scylladb/scylla-cluster-tests #8839 (ReservationCapacityExceeded),
hashicorp/terraform-provider-aws, ec2/errors.go (InvalidCapacityReservationId.NotFound). How EC2
refuses a reservation that is not active is not published with its wording: as one without capacity.
"""

from __future__ import annotations

from slicewright.rehearsal.clouds.aws.account import Reservation
from slicewright.rehearsal.clouds.aws.ec2.capacity_reservations import (
    Target,
    not_found,
    reservations,
    target_of,
)
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.eks.template_data import data_of, instance_types_of
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS, NodeGroupRecord
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import CloudError

_EXCEEDED = (
    "ReservationCapacityExceeded - The requested reservation does not have sufficient compatible "
    "and available capacity for this request."
)


def running_in(context: Context, region: str, identity: str) -> int:
    """Instances of groups that target the reservation. One in a group counts for the first of it
    that fits.
    """
    account_reservations = reservations(context, region)
    count = 0
    for other in _groups(context, region):
        target = target_of(data_of(context, other))
        if target is None:
            continue
        among = [
            i
            for i, reservation in account_reservations.items()
            if reservation in target.among({i: reservation})
        ]
        for node in other["nodes"]:
            zone = _zone(context, other, node["location"])
            count += (
                next((i for i in among if account_reservations[i].zone == zone), None) == identity
            )
    return count


def targets(context: Context, item: NodeGroupRecord) -> bool:
    """Whether the group's instances run in a reservation that it names, or not at all."""
    return target_of(data_of(context, item)) is not None


def missing_capacity(
    context: Context, item: NodeGroupRecord, instance_type: str, subnet: str, new: int
) -> str | None:
    """Why the group's reservation has no instance in the subnet's zone, beside `new` new ones."""
    target = target_of(data_of(context, item))
    assert target is not None
    account_reservations = reservations(context, item["region"])
    if target.reservation is not None and target.reservation not in account_reservations:
        return " - ".join(not_found(target.reservation))
    block = item["nodegroup"]["capacityType"] == "CAPACITY_BLOCK"
    available = [
        reservation
        for reservation in target.among(account_reservations)
        if _fits(reservation, instance_type, _zone(context, item, subnet))
        and (reservation.kind == "capacity-block") is block
    ]
    zones = {reservation.zone for reservation in available}
    used = sum(
        _zone(context, other, node["location"]) in zones
        for other in _groups_of_target(context, item["region"], target)
        for node in other["nodes"]
    )
    free = sum(reservation.count - reservation.taken for reservation in available)
    return None if used + new < free else _EXCEEDED


def fits_open_reservation(
    context: Context, item: NodeGroupRecord, instance_type: str, subnet: str, new: int
) -> bool:
    """Whether an open reservation of the type and zone has one more instance."""
    if item["nodegroup"]["capacityType"] != "ON_DEMAND":
        return False
    zone = _zone(context, item, subnet)
    count = sum(
        reservation.count - reservation.taken
        for reservation in reservations(context, item["region"]).values()
        if reservation.open
        and reservation.kind == "default"
        and _fits(reservation, instance_type, zone)
    )
    if not count:
        return False
    used = sum(
        _zone(context, other, node["location"]) == zone
        for other in _groups(context, item["region"])
        if other["nodegroup"]["capacityType"] == "ON_DEMAND"
        and target_of(data_of(context, other)) is None
        for node in other["nodes"]
        if node.get("machine", instance_types_of(context, other)[0]) == instance_type
    )
    return used + new < count


def _fits(reservation: Reservation, instance_type: str, zone: str | None) -> bool:
    return (reservation.state, reservation.instance_type, reservation.zone) == (
        "active",
        instance_type,
        zone,
    )


def _zone(context: Context, item: NodeGroupRecord, subnet: str) -> str | None:
    """Zone id."""
    subnet_record = find_subnet(context, item["region"], subnet)
    return None if subnet_record is None else str(subnet_record["AvailabilityZoneId"])


def _groups_of_target(context: Context, region: str, target: Target) -> list[NodeGroupRecord]:
    return [
        other for other in _groups(context, region) if target_of(data_of(context, other)) == target
    ]


def _groups(context: Context, region: str) -> list[NodeGroupRecord]:
    """Those whose launch template, if they have one, is there."""
    groups = []
    for other in context.store.values(NODE_GROUPS, prefix=f"{region}/"):
        try:
            data_of(context, other)
        except CloudError:
            continue
        groups.append(other)
    return groups
