"""Asks AWS about the capacity reservations and KMS keys that a plan names. Every call reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from slicewright.doctor.ask.aws.session import AwsSession, code_of
from slicewright.doctor.checks.eks.capacity import (
    CapacityReservation,
    Reservations,
    keys_needed,
    reservations_needed,
)
from slicewright.doctor.checks.keys import Key, Keys
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.infra.plan import EksFleetPlan

_DESCRIBE = "ec2:DescribeCapacityReservations"
_NO_RESERVATION = (
    "InvalidCapacityReservationId.NotFound",
    "InvalidCapacityReservationId.Malformed",
)


def ask_reservations(session: AwsSession, fleet: EksFleetPlan) -> Reservations:
    return {name: _reserved(session, name) for name in reservations_needed(fleet)}


def ask_keys(session: AwsSession, fleet: EksFleetPlan) -> Keys:
    return {
        arn: session.answer("kms:DescribeKey", partial(_key, session, arn))
        for arn in keys_needed(fleet)
    }


def _reserved(session: AwsSession, name: str) -> Answer[tuple[CapacityReservation, ...] | None]:
    if not name.startswith("arn:"):
        return session.answer(_DESCRIBE, lambda: _described(session, [name]))
    members = session.answer("resource-groups:ListGroupResources", lambda: _members(session, name))
    if members is None or isinstance(members, NotAnswered):
        return members
    # Without an ID, EC2 describes all reservations.
    return session.answer(_DESCRIBE, lambda: _described(session, members)) if members else ()


def _described(session: AwsSession, ids: Sequence[str]) -> tuple[CapacityReservation, ...] | None:
    try:
        response = session.client("ec2").describe_capacity_reservations(
            CapacityReservationIds=list(ids)
        )
    except session.errors.ClientError as e:
        if code_of(e) not in _NO_RESERVATION:
            raise
        return None
    return tuple(map(_reservation, response["CapacityReservations"]))


def _reservation(description: Mapping[str, Any]) -> CapacityReservation:
    return CapacityReservation(
        id=description["CapacityReservationId"],
        instance_type=description["InstanceType"],
        zone=description["AvailabilityZone"],
        zone_id=description["AvailabilityZoneId"],
        state=description["State"],
        block=description.get("ReservationType") == "capacity-block",
        total=description["TotalInstanceCount"],
        available=description.get("AvailableInstanceCount", 0),
        start=_moment(description.get("StartDate")),
        end=_moment(description.get("EndDate")),
    )


def _moment(date: Any) -> str | None:
    return None if date is None else f"{date:%Y-%m-%d %H:%M} UTC"


def _members(session: AwsSession, group: str) -> list[str] | None:
    """IDs of the group's capacity reservations, or None if there is no such group."""
    pages = session.client("resource-groups").get_paginator("list_group_resources")
    try:
        listed = [
            member["ResourceArn"]
            for page in pages.paginate(Group=group)
            for member in page["ResourceIdentifiers"]
        ]
    except session.errors.ClientError as e:
        if code_of(e) != "NotFoundException":
            raise
        return None
    return [arn.rpartition("/")[2] for arn in listed if ":capacity-reservation/" in arn]


def _key(session: AwsSession, arn: str) -> Key | None:
    try:
        metadata = session.client("kms").describe_key(KeyId=arn)["KeyMetadata"]
    except session.errors.ClientError as e:
        if code_of(e) != "NotFoundException":
            raise
        return None
    return Key(
        state=metadata["KeyState"],
        encrypts=metadata.get("KeyUsage") == "ENCRYPT_DECRYPT"
        and metadata.get("KeySpec") == "SYMMETRIC_DEFAULT",
    )
