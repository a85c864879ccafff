"""EC2 capacity reservations and capacity blocks, which the account file states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import Reservation, account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.zones import zone_ids
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import not_simulated

Running = Callable[[Context, str, str], int]
"""Region and reservation -> instances of node groups that run in it, which EKS's part knows."""


class CapacityReservations:
    def __init__(self, context: Context, running: Running) -> None:
        self._context = context
        self._running = running

    def methods(self) -> Methods:
        return {"DescribeCapacityReservations": self._describe}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region = str(params["region"])
        account_reservations = reservations(self._context, region)
        ids = body.get("CapacityReservationIds") or list(account_reservations)
        for identity in ids:
            if identity not in account_reservations:
                raise aws_error(*not_found(identity))
        names = {i: name for name, i in zone_ids(account_of(self._context), region).items()}
        descriptions = [
            self._describe_reservation(
                i, account_reservations[i], region, names[account_reservations[i].zone]
            )
            for i in ids
        ]
        return {
            "CapacityReservations": [
                description
                for description in descriptions
                if all(_passes(description, f) for f in body.get("Filters", ()))
            ]
        }

    def _describe_reservation(
        self, identity: str, reservation: Reservation, region: str, zone: str
    ) -> JsonObject:
        used = reservation.taken + self._running(self._context, region, identity)
        arn = f"arn:aws:ec2:{region}:{ACCOUNT}:capacity-reservation/{identity}"
        dates = {"StartDate": reservation.start, "EndDate": reservation.end}
        return {
            "CapacityReservationId": identity,
            "OwnerId": ACCOUNT,
            "CapacityReservationArn": arn,
            "AvailabilityZoneId": reservation.zone,
            "AvailabilityZone": zone,
            "InstanceType": reservation.instance_type,
            "InstancePlatform": "Linux/UNIX",
            "Tenancy": "default",
            "TotalInstanceCount": reservation.count,
            "AvailableInstanceCount": max(reservation.count - used, 0)
            if reservation.state == "active"
            else 0,
            "State": reservation.state,
            "EndDateType": "limited" if reservation.kind == "capacity-block" else "unlimited",
            "InstanceMatchCriteria": "open" if reservation.open else "targeted",
            "ReservationType": reservation.kind,
            **{name: date for name, date in dates.items() if date is not None},
        }


_FILTERS = {
    "instance-type": "InstanceType",
    "instance-match-criteria": "InstanceMatchCriteria",
    "state": "State",
}


def _passes(description: JsonObject, requested: JsonObject) -> bool:
    if requested["Name"] not in _FILTERS:
        raise not_simulated(
            f"The rehearsal's cloud does not simulate the filter {requested['Name']}; it has "
            f"{', '.join(_FILTERS)}."
        )
    return description[_FILTERS[requested["Name"]]] in requested["Values"]


def not_found(identity: str) -> tuple[str, str]:
    """EC2's error and message. Source: hashicorp/terraform-provider-aws, ec2/errors.go."""
    return (
        "InvalidCapacityReservationId.NotFound",
        f"The capacity reservation ID '{identity}' does not exist",
    )


def reservations(context: Context, region: str) -> Mapping[str, Reservation]:
    """Those of the region, by ID."""
    account = account_of(context)
    here = set(zone_ids(account, region).values())
    return {i: r for i, r in account.reservations.items() if r.zone in here}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a launch template targets: a reservation, or a resource group of some."""

    reservation: str | None = None
    group: str | None = None

    def among(self, account_reservations: Mapping[str, Reservation]) -> Iterable[Reservation]:
        if self.group is not None:
            return [r for r in account_reservations.values() if self.group in r.groups]
        return [r for identity, r in account_reservations.items() if identity == self.reservation]


def target_of(template: JsonObject) -> Target | None:
    """template: the data of a launch template."""
    specification = template.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget")
    if not target:
        return None
    return Target(
        reservation=target.get("CapacityReservationId"),
        group=target.get("CapacityReservationResourceGroupArn"),
    )
