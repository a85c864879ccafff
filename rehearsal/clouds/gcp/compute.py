"""The simulated Compute Engine: networks and subnetworks."""

from __future__ import annotations

import ipaddress
import re
import secrets

from kubeapi import JsonObject
from rehearsal.clouds.core.context import Context, Methods, now
from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.core.store import Kind
from rehearsal.clouds.gcp.errors import google_error
from rehearsal.clouds.gcp.state import CLUSTERS, NETWORKS, SUBNETWORKS

_API = "https://www.googleapis.com/compute/v1"
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


class Compute:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "networks.insert": self._insert_network,
            "networks.get": lambda params, _: self._get(NETWORKS, _network_key(params)),
            "networks.patch": self._patch_network,
            "networks.delete": self._delete_network,
            "subnetworks.insert": self._insert_subnetwork,
            "subnetworks.get": lambda params, _: self._get(SUBNETWORKS, _subnetwork_key(params)),
            "subnetworks.patch": self._patch_subnetwork,
            "subnetworks.expandIpCidrRange": self._expand_subnetwork,
            "subnetworks.delete": self._delete_subnetwork,
        }

    def inventory(self) -> list[JsonObject]:
        return [
            {"kind": kind, "name": key}
            for kind, where in (("compute.network", NETWORKS), ("compute.subnetwork", SUBNETWORKS))
            for key, _ in self._store.items(where)
        ]

    def _get(self, kind: Kind[JsonObject], key: str) -> JsonObject:
        found = self._store.get(kind, key)
        if found is None:
            project, *rest = key.split("/")
            where = f"projects/{project}/" + (
                f"global/networks/{rest[0]}"
                if kind == NETWORKS
                else f"regions/{rest[0]}/subnetworks/{rest[-1]}"
            )
            raise google_error(404, f"The resource '{where}' was not found")
        return found

    def _insert_network(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, name = params["project"], str(body.get("name", ""))
        _check_name(name)
        link = f"{_API}/projects/{project}/global/networks/{name}"
        with self._store.lock:
            if self._store.get(NETWORKS, f"{project}/{name}"):
                raise google_error(
                    409, f"The resource 'projects/{project}/global/networks/{name}' already exists"
                )
            network = {
                "routingConfig": {"routingMode": "REGIONAL"},
                "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
                **body,
                **_common(link, "compute#network"),
            }
            self._store.put(NETWORKS, f"{project}/{name}", network)
        return _done(project, "global", link, "insert")

    def _patch_network(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            network = self._get(NETWORKS, _network_key(params))
            self._store.put(NETWORKS, _network_key(params), network | body)
        return _done(params["project"], "global", network["selfLink"], "patch")

    def _delete_network(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            network = self._get(NETWORKS, _network_key(params))
            for subnetwork in self._store.values(SUBNETWORKS):
                if subnetwork["network"] == network["selfLink"]:
                    raise _in_use(network["selfLink"], subnetwork["selfLink"])
            self._refuse_while_used("network", network)
            self._store.delete(NETWORKS, _network_key(params))
        return _done(params["project"], "global", network["selfLink"], "delete")

    def _insert_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, region, name = params["project"], params["region"], str(body.get("name", ""))
        _check_name(name)
        key = f"{project}/{region}/{name}"
        link = f"{_API}/projects/{project}/regions/{region}/subnetworks/{name}"
        network_name = str(body.get("network", "")).rpartition("/")[2]
        with self._store.lock:
            network = self._store.get(NETWORKS, f"{project}/{network_name}")
            if network is None:
                raise google_error(
                    400,
                    "The referenced network resource "
                    f"'projects/{project}/global/networks/{network_name}' cannot be found.",
                )
            if self._store.get(SUBNETWORKS, key):
                raise google_error(
                    409,
                    "The resource "
                    f"'projects/{project}/regions/{region}/subnetworks/{name}' already "
                    "exists",
                )
            self._check_ranges(network["selfLink"], region, body)
            address = ipaddress.ip_network(body["ipCidrRange"])
            subnetwork = {
                "privateIpGoogleAccess": False,
                "purpose": "PRIVATE",
                "stackType": "IPV4_ONLY",
                "gatewayAddress": str(address[1]),
                **body,
                **_common(link, "compute#subnetwork"),
                "network": network["selfLink"],
                "region": f"{_API}/projects/{project}/regions/{region}",
                "fingerprint": secrets.token_urlsafe(8),
            }
            self._store.put(SUBNETWORKS, key, subnetwork)
        return _done(project, f"regions/{region}", link, "insert")

    def _check_ranges(self, network: str, region: str, body: JsonObject, *, but: str = "") -> None:
        """but: the key of a subnetwork whose present ranges do not count."""
        wanted = [
            body.get("ipCidrRange"),
            *(r.get("ipCidrRange") for r in body.get("secondaryIpRanges") or []),
        ]
        taken = [
            (s["name"], ipaddress.ip_network(r))
            for key, s in self._store.items(SUBNETWORKS)
            if s["network"] == network and key != but
            for r in (s["ipCidrRange"], *(x["ipCidrRange"] for x in s.get("secondaryIpRanges", [])))
        ]
        for text in wanted:
            try:
                block = ipaddress.ip_network(str(text))
            except ValueError as e:
                raise google_error(
                    400, f"Invalid value for field 'resource.ipCidrRange': '{text}'. {e}."
                ) from None
            for owner, other in taken:
                if block.overlaps(other):
                    raise google_error(
                        400,
                        f"Invalid IPCidrRange: {block} conflicts with existing subnetwork "
                        f"'{owner}' in region '{region}'.",
                    )
            taken.append((str(body.get("name")), block))

    def _patch_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _subnetwork_key(params)
        with self._store.lock:
            subnetwork = self._get(SUBNETWORKS, key)
            self._store.put(
                SUBNETWORKS, key, subnetwork | body | {"fingerprint": secrets.token_urlsafe(8)}
            )
        return _done(
            params["project"], f"regions/{params['region']}", subnetwork["selfLink"], "patch"
        )

    def _expand_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _subnetwork_key(params)
        with self._store.lock:
            subnetwork = self._get(SUBNETWORKS, key)
            old, wider = subnetwork["ipCidrRange"], str(body.get("ipCidrRange", ""))
            others = {**subnetwork, "ipCidrRange": wider, "secondaryIpRanges": []}
            self._check_ranges(subnetwork["network"], params["region"], others, but=key)
            if not ipaddress.IPv4Network(old).subnet_of(ipaddress.IPv4Network(wider)):
                raise google_error(
                    400,
                    f"Invalid value for field 'ipCidrRange': '{wider}'. New IP CIDR range "
                    f"({wider}) must be a superset of the existing range ({old}).",
                )
            self._store.put(SUBNETWORKS, key, subnetwork | {"ipCidrRange": wider})
        return _done(
            params["project"], f"regions/{params['region']}", subnetwork["selfLink"], "expand"
        )

    def _delete_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            subnetwork = self._get(SUBNETWORKS, _subnetwork_key(params))
            self._refuse_while_used("subnetwork", subnetwork)
            self._store.delete(SUBNETWORKS, _subnetwork_key(params))
        return _done(
            params["project"], f"regions/{params['region']}", subnetwork["selfLink"], "delete"
        )

    def _refuse_while_used(self, field: str, resource: JsonObject) -> None:
        """Raises CloudError while a cluster's machines use the network or subnetwork."""
        project = resource["selfLink"].removeprefix(f"{_API}/projects/").split("/")[0]
        for key, item in self._store.items(CLUSTERS):
            if key.split("/")[1] == project and item["cluster"].get(field) == resource["name"]:
                zone = item["cluster"]["locations"][0]
                name = f"gke-{item['cluster']['name']}"
                machine = f"{_API}/projects/{project}/zones/{zone}/instances/{name}"
                raise _in_use(resource["selfLink"], machine)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise google_error(
            400,
            f"Invalid value for field 'resource.name': '{name}'. Must be a match of regex "
            f"'{_NAME.pattern}'",
        )


def _common(link: str, kind: str) -> JsonObject:
    return {
        "kind": kind,
        "id": str(secrets.randbits(62)),
        "selfLink": link,
        "creationTimestamp": now(),
    }


def _done(project: str, scope: str, target: str, kind: str) -> JsonObject:
    """An operation that is already done: changes of networks take no time worth simulating."""
    name = f"operation-{secrets.token_hex(12)}"
    return {
        "kind": "compute#operation",
        "name": name,
        "operationType": kind,
        "status": "DONE",
        "progress": 100,
        "targetLink": target,
        "selfLink": f"{_API}/projects/{project}/{scope}/operations/{name}",
    }


def _in_use(link: str, by: str) -> CloudError:
    return google_error(
        400,
        f"The resource '{link.removeprefix(_API + '/')}' is already being used by "
        f"'{by.removeprefix(_API + '/')}'",
        status="RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
    )


def _network_key(params: JsonObject) -> str:
    return f"{params['project']}/{params['network']}"


def _subnetwork_key(params: JsonObject) -> str:
    return f"{params['project']}/{params['region']}/{params['subnetwork']}"
