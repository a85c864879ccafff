"""gcp:compute Router and RouterNat: a NAT gateway is one of the entries of its router.

Source of calls and force_new: hashicorp/terraform-provider-google-beta, services/compute,
resource_compute_router.go and resource_compute_router_nat.go.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.fields import Field, Fields, from_api, same, to_api
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Resource,
    Session,
    State,
    prior_values,
)
from slicewright.rehearsal.plugins.engine.plugin import ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.gcp.calls import (
    last,
    network_as_given,
    or_none,
    project_of,
    region_of,
)

_ROUTER: Fields = {**same("name", "description"), "network": Field()}
_NAT: Fields = {
    **same("name", "natIpAllocateOption", "sourceSubnetworkIpRangesToNat"),
    **same("enableEndpointIndependentMapping", "type", "endpointTypes", computed=True),
}


class Router(Resource):
    kind = "gcp:compute/router:Router"
    force_new = ("name", "network", "region", "project")
    keeps = ("region", "project")
    autoname = Autoname("name", 63, lower=True)

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project, region = project_of(session, inputs), region_of(session, inputs)
        body = to_api(_ROUTER, {k: v for k, v in inputs.items() if k not in ("project", "region")})
        if "/" not in body["network"]:
            body["network"] = f"projects/{project}/global/networks/{body['network']}"
        where = {"project": project, "region": region}
        session.cloud.call("compute", "routers.insert", where, body)
        return CreateResult(f"projects/{project}/regions/{region}/routers/{inputs['name']}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        where = _router(resource_id)
        router = or_none(session, "compute", "routers.get", where)
        if router is None:
            return None
        read_inputs = from_api(_ROUTER, router, inputs or None)
        read_inputs.update(network_as_given(inputs, router))
        outputs = {
            **from_api(_ROUTER, router, None),
            "project": where["project"],
            "region": where["region"],
            "selfLink": router["selfLink"],
            "creationTimestamp": router["creationTimestamp"],
        }
        return State({**read_inputs, **prior_values(inputs, "project", "region")}, outputs)

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> list[str]:
        body = {"description": new.get("description", "")}
        session.cloud.call("compute", "routers.patch", _router(resource_id), body)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if or_none(session, "compute", "routers.get", _router(resource_id)) is not None:
            session.cloud.call("compute", "routers.delete", _router(resource_id))


class RouterNat(Resource):
    """Its id is PROJECT/REGION/ROUTER/NAME."""

    kind = "gcp:compute/routerNat:RouterNat"
    force_new = ("name", "router", "region", "project", "endpointTypes", "type")
    keeps = ("region", "project", "enableEndpointIndependentMapping", "type", "endpointTypes")
    autoname = Autoname("name", 63, lower=True)

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project, region = project_of(session, inputs), region_of(session, inputs)
        key = f"{project}/{region}/{last(str(inputs['router']))}/{inputs['name']}"
        nats = self._other_nats(session, key)
        if nats is None:
            raise ProviderError(f"Error creating RouterNat: there is no router {inputs['router']}")
        _patch(session, key, [*nats, _entry(inputs)])
        return CreateResult(key)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        project, region, router, name = resource_id.split("/")
        cloud_router = or_none(session, "compute", "routers.get", _nat_router(resource_id)) or {}
        nat = next((n for n in cloud_router.get("nats", ()) if n["name"] == name), None)
        if nat is None:
            return None
        read_inputs = from_api(_NAT, nat, inputs or None)
        place = {"project": project, "region": region, "router": router}
        return State(
            {**read_inputs, **prior_values(inputs, *place), **({} if inputs else place)},
            {**from_api(_NAT, nat, None), **place},
        )

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> list[str]:
        _patch(session, resource_id, [*(self._other_nats(session, resource_id) or ()), _entry(new)])
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        other_nats = self._other_nats(session, resource_id)
        if other_nats is not None:
            _patch(session, resource_id, other_nats)

    def _other_nats(self, session: Session, key: str) -> list[JsonObject] | None:
        """The router's other gateways; None where there is no router."""
        router = or_none(session, "compute", "routers.get", _nat_router(key))
        if router is None:
            return None
        return [nat for nat in router.get("nats", ()) if nat["name"] != key.split("/")[3]]


def _entry(inputs: Properties) -> JsonObject:
    place = ("project", "region", "router")
    return to_api(_NAT, {k: v for k, v in inputs.items() if k not in place})


def _patch(session: Session, key: str, nats: list[JsonObject]) -> None:
    session.cloud.call("compute", "routers.patch", _nat_router(key), {"nats": nats})


def _router(resource_id: str) -> JsonObject:
    _, project, _, region, _, name = resource_id.split("/")
    return {"project": project, "region": region, "router": name}


def _nat_router(key: str) -> JsonObject:
    project, region, router, _ = key.split("/")
    return {"project": project, "region": region, "router": router}
