"""aws:ec2 PlacementGroup.

Source of force_new: hashicorp/terraform-provider-aws, internal/service/ec2/ec2_placement_group.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Session,
    State,
    not_simulated,
)
from slicewright.rehearsal.plugins.bridge.waiting import wait_until
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import call, or_none, tag_specifications
from slicewright.rehearsal.plugins.providers.aws.ec2_resource import Ec2Resource


class PlacementGroup(Ec2Resource):
    """Its ID is its name."""

    kind = "aws:ec2/placementGroup:PlacementGroup"
    force_new = ("name", "partitionCount", "region", "spreadLevel", "strategy")
    keeps = ("name", "partitionCount", "region", "spreadLevel")
    autoname = Autoname("name", 255)

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        return not_simulated(inputs, ("name", "strategy", "tags", "region"))

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        name = str(inputs["name"])
        call(
            session,
            inputs,
            "ec2",
            "CreatePlacementGroup",
            GroupName=name,
            Strategy=inputs["strategy"],
            TagSpecifications=tag_specifications("placement-group", inputs),
        )
        wait_until(
            session, f"EC2 Placement Group ({name}) create", lambda: _group(session, name, inputs)
        )
        return CreateResult(name)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        group = _group(session, resource_id, inputs)
        if group is None:
            return None
        read_inputs = {"name": group["GroupName"], "strategy": group["Strategy"]}
        outputs = {
            "arn": group["GroupArn"],
            "partitionCount": 0,
            "placementGroupId": group["GroupId"],
            "spreadLevel": "",
        }
        return self.state(
            session, inputs, tags=group["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def tagged_id(self, session: Session, resource_id: str, inputs: Properties) -> str:
        return str((_group(session, resource_id, inputs) or {}).get("GroupId"))

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if _group(session, resource_id, inputs) is not None:
            call(session, inputs, "ec2", "DeletePlacementGroup", GroupName=resource_id)


def _group(session: Session, name: str, inputs: Properties) -> JsonObject | None:
    try:
        answer = or_none(session, inputs, "ec2", "DescribePlacementGroups", GroupNames=[name])
    except CloudError as e:
        if not e.reason.startswith("InvalidPlacementGroup"):
            raise
        return None
    return answer["PlacementGroups"][0] if answer else None
