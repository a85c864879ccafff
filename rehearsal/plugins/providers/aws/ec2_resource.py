"""What the resources of aws:ec2 with tags have in common."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.resources import Resource, Session, State, prior_values
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    region_of,
    retag_ec2,
    seen_tags,
    tag_map,
)


class Ec2Resource(Resource):
    """Tags change in place, and are shown as inputs where the program stated them."""

    keeps_of_inputs: Sequence[str] = ("region",)
    """Inputs that EC2 does not tell."""

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        self.change(session, resource_id, old, new)
        retag_ec2(session, self.tagged_id(session, resource_id, new), old, new)
        return []

    def change(self, session: Session, resource_id: str, old: Properties, new: Properties) -> None:
        """Changes in place what is not a tag."""

    def tagged_id(self, session: Session, resource_id: str, inputs: Properties) -> str:
        """The ID by which EC2 tags it."""
        return resource_id

    def state(
        self,
        session: Session,
        inputs: Properties,
        *,
        tags: list[JsonObject],
        read_inputs: JsonObject,
        outputs: JsonObject,
    ) -> State:
        """Returns the resource's state.

        read_inputs: the fields that can be inputs, without tags. outputs: all other fields. tags:
        in EC2's form.
        """
        all_tags = tag_map(tags)
        common = {"tags": all_tags, "tagsAll": all_tags, "region": region_of(session, inputs)}
        return State(
            {
                **read_inputs,
                **seen_tags(all_tags, inputs),
                **prior_values(inputs, *self.keeps_of_inputs),
            },
            {**read_inputs, **outputs, **common},
        )
