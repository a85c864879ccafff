"""The simulated Resource Groups: groups of capacity reservations, which the account file states."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.capacity_reservations import reservations
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.core.context import Context, Methods


class ResourceGroups:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"ListGroupResources": self._list}

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """All at once. A group is there as long as a reservation is in it."""
        region, group = str(params["region"]), body.get("Group") or body.get("GroupName")
        ids = [
            i
            for i, reservation in reservations(self._context, region).items()
            if group in reservation.groups
        ]
        if not ids:
            raise aws_error("NotFoundException", f"Cannot find group {group}", code=404)
        arn = f"arn:aws:ec2:{region}:{ACCOUNT}:capacity-reservation"
        listed = [
            {"ResourceArn": f"{arn}/{i}", "ResourceType": "AWS::EC2::CapacityReservation"}
            for i in ids
        ]
        return {
            "Resources": [{"Identifier": identifier} for identifier in listed],
            "ResourceIdentifiers": listed,
        }
