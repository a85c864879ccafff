"""gcp:compute Network and Subnetwork.

Source of force_new: hashicorp/terraform-provider-google-beta, services/compute.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.fields import Field, from_api, same, to_api
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
    region_of,
)

_NETWORK = {
    **same("name", "description", "autoCreateSubnetworks", "mtu"),
    "routingMode": Field(api="routingConfig.routingMode", computed=True),
}
_SUBNETWORK = {
    **same(
        "name",
        "description",
        "ipCidrRange",
        "purpose",
        "stackType",
        "privateIpGoogleAccess",
        computed=True,
    ),
    "network": Field(),
    "secondaryIpRanges": Field(many=True, of=same("rangeName", "ipCidrRange")),
}


class Network(Resource):
    kind = "gcp:compute/network:Network"
    force_new = ("name", "description", "autoCreateSubnetworks", "project")
    keeps = ("mtu", "routingMode", "project", "description")
    autoname = Autoname("name", 63, lower=True)

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"autoCreateSubnetworks": True}

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project = project_of(session, inputs)
        body = to_api(_NETWORK, _without(inputs, "project", "deleteDefaultRoutesOnCreate"))
        session.cloud.call("compute", "networks.insert", {"project": project}, body)
        return CreateResult(f"projects/{project}/global/networks/{inputs['name']}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        project = resource_id.split("/")[1]
        network = or_none(
            session, "compute", "networks.get", {"project": project, "network": last(resource_id)}
        )
        if network is None:
            return None
        read_inputs = from_api(_NETWORK, network, inputs or None)
        unread = prior_values(inputs, "project", "deleteDefaultRoutesOnCreate")
        outputs = {
            **from_api(_NETWORK, network, None),
            "project": project,
            "selfLink": network["selfLink"],
            "networkId": network["id"],
            "numericId": network["id"],
            "gatewayIpv4": "",
        }
        return State({**read_inputs, **unread}, outputs)

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> list[str]:
        body: JsonObject = {}
        if old.get("routingMode") != new.get("routingMode"):
            body["routingConfig"] = {"routingMode": new.get("routingMode", "REGIONAL")}
        if old.get("mtu") != new.get("mtu") and new.get("mtu") is not None:
            body["mtu"] = int(new["mtu"])
        if body:
            session.cloud.call(
                "compute",
                "networks.patch",
                {"project": resource_id.split("/")[1], "network": last(resource_id)},
                body,
            )
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        where = {"project": resource_id.split("/")[1], "network": last(resource_id)}
        if or_none(session, "compute", "networks.get", where) is not None:
            session.cloud.call("compute", "networks.delete", where)


class Subnetwork(Resource):
    kind = "gcp:compute/subnetwork:Subnetwork"
    force_new = ("name", "network", "region", "project", "description")
    keeps = ("region", "project", "purpose", "stackType", "privateIpGoogleAccess", "description")
    autoname = Autoname("name", 63, lower=True)

    def replaced_by(self, old: Properties, new: Properties) -> Sequence[str]:
        """A range can grow and not shrink: resource_compute_subnetwork.go, IsShrinkageIpCidr."""
        before, after = old.get("ipCidrRange"), new.get("ipCidrRange")
        if not isinstance(before, str) or before == after:
            return ()
        if not isinstance(after, str):
            return ("ipCidrRange",)
        try:
            wider = ipaddress.ip_network(before).subnet_of(ipaddress.ip_network(after))  # type: ignore[arg-type]
        except (ValueError, TypeError):
            wider = False  # Compute Engine says what is wrong with it
        return () if wider else ("ipCidrRange",)

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project, region = project_of(session, inputs), region_of(session, inputs)
        body = to_api(_SUBNETWORK, _without(inputs, "project", "region"))
        body["network"] = _network_link(project, str(inputs["network"]))
        session.cloud.call(
            "compute", "subnetworks.insert", {"project": project, "region": region}, body
        )
        return CreateResult(f"projects/{project}/regions/{region}/subnetworks/{inputs['name']}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        subnetwork = or_none(session, "compute", "subnetworks.get", _subnetwork(resource_id))
        if subnetwork is None:
            return None
        read_inputs = from_api(_SUBNETWORK, subnetwork, inputs or None)
        read_inputs.update(network_as_given(inputs, subnetwork))
        unread = prior_values(inputs, "project", "region")
        outputs = {
            **from_api(_SUBNETWORK, subnetwork, None),
            "project": resource_id.split("/")[1],
            "region": resource_id.split("/")[3],
            "selfLink": subnetwork["selfLink"],
            "creationTimestamp": subnetwork["creationTimestamp"],
            "fingerprint": subnetwork["fingerprint"],
            "gatewayAddress": subnetwork["gatewayAddress"],
        }
        return State({**read_inputs, **unread}, outputs)

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> list[str]:
        changed = {k: v for k, v in new.items() if old.get(k) != v and k in _SUBNETWORK}
        wider = changed.pop("ipCidrRange", None)
        if wider is not None:
            session.cloud.call(
                "compute",
                "subnetworks.expandIpCidrRange",
                _subnetwork(resource_id),
                {"ipCidrRange": wider},
            )
        dropped = [k for k in old if k not in new and k == "secondaryIpRanges"]
        body = to_api(_SUBNETWORK, changed) | {k: [] for k in dropped}
        if body:
            session.cloud.call("compute", "subnetworks.patch", _subnetwork(resource_id), body)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if or_none(session, "compute", "subnetworks.get", _subnetwork(resource_id)) is not None:
            session.cloud.call("compute", "subnetworks.delete", _subnetwork(resource_id))


def _subnetwork(resource_id: str) -> JsonObject:
    parts = resource_id.split("/")
    return {"project": parts[1], "region": parts[3], "subnetwork": parts[5]}


def _network_link(project: str, network: str) -> str:
    return network if "/" in network else f"projects/{project}/global/networks/{network}"


def _without(inputs: Properties, *names: str) -> Properties:
    return {k: v for k, v in inputs.items() if k not in names}
