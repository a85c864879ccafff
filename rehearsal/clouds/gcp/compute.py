"""The simulated Compute Engine: networks, subnetworks, routers, and what clusters have and leave in
it.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Iterator

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.store import Kind
from slicewright.rehearsal.clouds.gcp.cluster_resources import ClusterResources, users_of
from slicewright.rehearsal.clouds.gcp.compute_answers import (
    API,
    common,
    done,
    in_use,
    referenced_network,
)
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.firewalls import Firewalls
from slicewright.rehearsal.clouds.gcp.gke.node_networks import pools_in
from slicewright.rehearsal.clouds.gcp.gke.quotas import check_networks
from slicewright.rehearsal.clouds.gcp.instances import Instances
from slicewright.rehearsal.clouds.gcp.routers import Routers
from slicewright.rehearsal.clouds.gcp.shared_vpcs import SharedVpcs
from slicewright.rehearsal.clouds.gcp.state import CLUSTERS, NETWORKS, ROUTERS, SUBNETWORKS

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


class Compute:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._of_clusters = ClusterResources(context)
        self._shared = SharedVpcs(context)
        self._routers = Routers(context)
        self._firewalls = Firewalls(context)
        self._instances = Instances(context)

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
            **self._of_clusters.methods(),
            **self._shared.methods(),
            **self._routers.methods(),
            **self._firewalls.methods(),
            **self._instances.methods(),
        }

    def inventory(self) -> list[JsonObject]:
        networks: list[JsonObject] = [
            {"kind": kind, "name": key}
            for kind, where in (
                ("compute.network", NETWORKS),
                ("compute.subnetwork", SUBNETWORKS),
                ("compute.router", ROUTERS),
            )
            for key, _ in self._store.items(where)
        ]
        return networks + self._of_clusters.inventory()

    def _get(self, kind: Kind[JsonObject], key: str) -> JsonObject:
        resource = self._store.get(kind, key)
        if resource is None:
            project, *rest = key.split("/")
            where = f"projects/{project}/" + (
                f"global/networks/{rest[0]}"
                if kind == NETWORKS
                else f"regions/{rest[0]}/subnetworks/{rest[-1]}"
            )
            raise google_error(404, f"The resource '{where}' was not found")
        return resource

    def _insert_network(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, name = params["project"], str(body.get("name", ""))
        _check_name(name)
        link = f"{API}/projects/{project}/global/networks/{name}"
        with self._store.lock:
            if self._store.get(NETWORKS, f"{project}/{name}"):
                raise google_error(
                    409, f"The resource 'projects/{project}/global/networks/{name}' already exists"
                )
            check_networks(self._context, project)
            network = {
                "routingConfig": {"routingMode": "REGIONAL"},
                "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
                **body,
                **common(link, "compute#network"),
            }
            self._store.put(NETWORKS, f"{project}/{name}", network)
        return done(project, "global", link, "insert")

    def _patch_network(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            network = self._get(NETWORKS, _network_key(params))
            self._store.put(NETWORKS, _network_key(params), network | body)
        return done(params["project"], "global", network["selfLink"], "patch")

    def _delete_network(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            network = self._get(NETWORKS, _network_key(params))
            for subnetwork in self._store.values(SUBNETWORKS):
                if subnetwork["network"] == network["selfLink"]:
                    raise in_use(network["selfLink"], subnetwork["selfLink"])
            for router in self._store.values(ROUTERS):
                if router["network"] == network["selfLink"]:
                    raise in_use(network["selfLink"], router["selfLink"])
            self._refuse_while_used("network", network)
            self._store.delete(NETWORKS, _network_key(params))
        return done(params["project"], "global", network["selfLink"], "delete")

    def _insert_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, region, name = params["project"], params["region"], str(body.get("name", ""))
        _check_name(name)
        key = f"{project}/{region}/{name}"
        link = f"{API}/projects/{project}/regions/{region}/subnetworks/{name}"
        with self._store.lock:
            network = referenced_network(self._store, project, body)
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
                **common(link, "compute#subnetwork"),
                "network": network["selfLink"],
                "region": f"{API}/projects/{project}/regions/{region}",
                "fingerprint": secrets.token_urlsafe(8),
            }
            self._store.put(SUBNETWORKS, key, subnetwork)
        return done(project, f"regions/{region}", link, "insert")

    def _check_ranges(self, network: str, region: str, body: JsonObject, *, but: str = "") -> None:
        """but: the key of a subnetwork whose present ranges do not count."""
        requested = [
            body.get("ipCidrRange"),
            *(r.get("ipCidrRange") for r in body.get("secondaryIpRanges") or []),
        ]
        used = [
            (s["name"], ipaddress.ip_network(r))
            for key, s in self._store.items(SUBNETWORKS)
            if s["network"] == network and key != but
            for r in (s["ipCidrRange"], *(x["ipCidrRange"] for x in s.get("secondaryIpRanges", [])))
        ]
        for text in requested:
            try:
                block = ipaddress.ip_network(str(text))
            except ValueError as e:
                raise google_error(
                    400, f"Invalid value for field 'resource.ipCidrRange': '{text}'. {e}."
                ) from None
            for owner, other in used:
                if block.overlaps(other):
                    raise google_error(
                        400,
                        f"Invalid IPCidrRange: {block} conflicts with existing subnetwork "
                        f"'{owner}' in region '{region}'.",
                    )
            used.append((str(body.get("name")), block))

    def _patch_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _subnetwork_key(params)
        with self._store.lock:
            subnetwork = self._get(SUBNETWORKS, key)
            self._store.put(
                SUBNETWORKS, key, subnetwork | body | {"fingerprint": secrets.token_urlsafe(8)}
            )
        return done(
            params["project"], f"regions/{params['region']}", subnetwork["selfLink"], "patch"
        )

    def _expand_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _subnetwork_key(params)
        with self._store.lock:
            subnetwork = self._get(SUBNETWORKS, key)
            old, wider = subnetwork["ipCidrRange"], str(body.get("ipCidrRange", ""))
            other_fields = {**subnetwork, "ipCidrRange": wider, "secondaryIpRanges": []}
            self._check_ranges(subnetwork["network"], params["region"], other_fields, but=key)
            if not ipaddress.IPv4Network(old).subnet_of(ipaddress.IPv4Network(wider)):
                raise google_error(
                    400,
                    f"Invalid value for field 'ipCidrRange': '{wider}'. New IP CIDR range "
                    f"({wider}) must be a superset of the existing range ({old}).",
                )
            self._store.put(SUBNETWORKS, key, subnetwork | {"ipCidrRange": wider})
        return done(
            params["project"], f"regions/{params['region']}", subnetwork["selfLink"], "expand"
        )

    def _delete_subnetwork(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            subnetwork = self._get(SUBNETWORKS, _subnetwork_key(params))
            self._refuse_while_used("subnetwork", subnetwork)
            self._store.delete(SUBNETWORKS, _subnetwork_key(params))
        return done(
            params["project"], f"regions/{params['region']}", subnetwork["selfLink"], "delete"
        )

    def _refuse_while_used(self, field: str, resource: JsonObject) -> None:
        """Raises CloudError while machines of a cluster, or what one has left, use it.

        field: of a cluster, `network` or `subnetwork`.
        """
        link = resource["selfLink"]
        for user in (*self._machines_in(field, resource), *users_of(self._context, link)):
            raise in_use(link, user)

    def _machines_in(self, field: str, resource: JsonObject) -> Iterator[str]:
        path = resource["selfLink"].removeprefix(f"{API}/")
        for key, item in self._store.items(CLUSTERS):
            if item["cluster"]["networkConfig"][field] == path:
                project = key.split("/")[1]
                zone = item["cluster"]["locations"][0]
                name = f"gke-{item['cluster']['name']}"
                yield f"{API}/projects/{project}/zones/{zone}/instances/{name}"
        project, name = path.split("/")[1], resource["name"]
        for pool in pools_in(self._store, project, field, name):
            zone = pool["locations"][0]
            yield f"{API}/projects/{project}/zones/{zone}/instances/gke-{pool['name']}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise google_error(
            400,
            f"Invalid value for field 'resource.name': '{name}'. Must be a match of regex "
            f"'{_NAME.pattern}'",
        )


def _network_key(params: JsonObject) -> str:
    return f"{params['project']}/{params['network']}"


def _subnetwork_key(params: JsonObject) -> str:
    return f"{params['project']}/{params['region']}/{params['subnetwork']}"
