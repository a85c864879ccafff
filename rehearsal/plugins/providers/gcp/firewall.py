"""gcp:compute Firewall.

Source of calls and force_new: hashicorp/terraform-provider-google-beta, services/compute,
resource_compute_firewall.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from slicewright.rehearsal.plugins.bridge.fields import Field, Fields, from_api, same, to_api
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Resource,
    Session,
    State,
    prior_values,
)
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.gcp.calls import (
    last,
    network_as_given,
    or_none,
    project_of,
)

_TRAFFIC: Fields = {"protocol": Field(api="IPProtocol"), "ports": Field()}
_FIREWALL: Fields = {
    **same("name", "description"),
    **same("direction", "disabled", computed=True),
    **same("priority"),
    "network": Field(),
    "sourceRanges": Field(unordered=True),
    "allows": Field(api="allowed", many=True, of=_TRAFFIC),
    "denies": Field(api="denied", many=True, of=_TRAFFIC),
}


class Firewall(Resource):
    kind = "gcp:compute/firewall:Firewall"
    force_new = ("name", "network", "direction", "project")
    sets = ("sourceRanges",)
    keeps = ("project", "direction", "description")
    autoname = Autoname("name", 63, lower=True)

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"priority": 1000}

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project = project_of(session, inputs)
        body = to_api(_FIREWALL, {k: v for k, v in inputs.items() if k != "project"})
        session.cloud.call("compute", "firewalls.insert", {"project": project}, body)
        return CreateResult(f"projects/{project}/global/firewalls/{inputs['name']}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        where = _place(resource_id)
        firewall = or_none(session, "compute", "firewalls.get", where)
        if firewall is None:
            return None
        read_inputs = from_api(_FIREWALL, firewall, inputs or None)
        read_inputs.update(network_as_given(inputs, firewall))
        outputs = {
            **from_api(_FIREWALL, firewall, None),
            "project": where["project"],
            "selfLink": firewall["selfLink"],
            "creationTimestamp": firewall["creationTimestamp"],
        }
        return State({**read_inputs, **prior_values(inputs, "project")}, outputs)

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> list[str]:
        body = to_api(_FIREWALL, {k: v for k, v in new.items() if k not in ("name", "project")})
        session.cloud.call("compute", "firewalls.patch", _place(resource_id), body)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if or_none(session, "compute", "firewalls.get", _place(resource_id)) is not None:
            session.cloud.call("compute", "firewalls.delete", _place(resource_id))


def _place(resource_id: str) -> dict[str, str]:
    return {"project": resource_id.split("/")[1], "firewall": last(resource_id)}
