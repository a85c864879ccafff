"""Compute Engine's resources that GKE's controllers make for Services, Ingresses and claims.

Only what a deleted cluster has left is simulated; it can be looked at and deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Handler, Methods
from slicewright.rehearsal.clouds.core.errors import not_simulated
from slicewright.rehearsal.clouds.core.store import Kind
from slicewright.rehearsal.clouds.gcp import compute_answers
from slicewright.rehearsal.clouds.gcp.claimed_disks import in_use
from slicewright.rehearsal.clouds.gcp.compute_answers import API, done
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.state import (
    ADDRESSES,
    BACKEND_SERVICES,
    DISKS,
    FIREWALLS,
    FORWARDING_RULES,
    GLOBAL_ADDRESSES,
    GLOBAL_BACKEND_SERVICES,
    GLOBAL_FORWARDING_RULES,
    HEALTH_CHECKS,
    NETWORK_ENDPOINT_GROUPS,
    SNAPSHOTS,
    SSL_CERTIFICATES,
    TARGET_HTTP_PROXIES,
    TARGET_HTTPS_PROXIES,
    TARGET_POOLS,
    URL_MAPS,
)

_NO_USE = ("selfLink", "sourceDisk")
"""Fields whose links keep nothing from being deleted."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """One kind of resource, as the API names it."""

    name: str
    """In methods, and in links."""
    parameter: str
    """Of a method, with the resource's name."""
    scope: Literal["zone", "region", "global"]
    aggregated: str | None
    """In the name of the method that lists those of all zones and regions, and the global ones;
    None = there is none.
    """
    in_links: str | None = None
    """If not `name`."""

    def path(self, key: str) -> str:
        """As in links. key: of the store."""
        project, *place, name = key.split("/")
        where = f"{self.scope}s/{place[0]}" if place else "global"
        return f"projects/{project}/{where}/{self.in_links or self.name}/{name}"

    def place(self, params: JsonObject) -> str:
        """What the keys of the resources there begin with."""
        parts = [params["project"], *([] if self.scope == "global" else [params[self.scope]])]
        return f"{'/'.join(parts)}/"


COLLECTIONS: Mapping[Kind[JsonObject], Collection] = {
    FIREWALLS: Collection(name="firewalls", parameter="firewall", scope="global", aggregated=None),
    FORWARDING_RULES: Collection(
        name="forwardingRules",
        parameter="forwardingRule",
        scope="region",
        aggregated="forwardingRules",
    ),
    TARGET_POOLS: Collection(
        name="targetPools", parameter="targetPool", scope="region", aggregated="targetPools"
    ),
    BACKEND_SERVICES: Collection(
        name="regionBackendServices",
        parameter="backendService",
        scope="region",
        aggregated="backendServices",
        in_links="backendServices",
    ),
    NETWORK_ENDPOINT_GROUPS: Collection(
        name="networkEndpointGroups",
        parameter="networkEndpointGroup",
        scope="zone",
        aggregated="networkEndpointGroups",
    ),
    DISKS: Collection(name="disks", parameter="disk", scope="zone", aggregated="disks"),
    SNAPSHOTS: Collection(name="snapshots", parameter="snapshot", scope="global", aggregated=None),
    ADDRESSES: Collection(
        name="addresses", parameter="address", scope="region", aggregated="addresses"
    ),
    GLOBAL_FORWARDING_RULES: Collection(
        name="globalForwardingRules",
        parameter="forwardingRule",
        scope="global",
        aggregated="forwardingRules",
        in_links="forwardingRules",
    ),
    GLOBAL_ADDRESSES: Collection(
        name="globalAddresses",
        parameter="address",
        scope="global",
        aggregated="addresses",
        in_links="addresses",
    ),
    TARGET_HTTP_PROXIES: Collection(
        name="targetHttpProxies",
        parameter="targetHttpProxy",
        scope="global",
        aggregated="targetHttpProxies",
    ),
    TARGET_HTTPS_PROXIES: Collection(
        name="targetHttpsProxies",
        parameter="targetHttpsProxy",
        scope="global",
        aggregated="targetHttpsProxies",
    ),
    SSL_CERTIFICATES: Collection(
        name="sslCertificates",
        parameter="sslCertificate",
        scope="global",
        aggregated="sslCertificates",
    ),
    URL_MAPS: Collection(name="urlMaps", parameter="urlMap", scope="global", aggregated="urlMaps"),
    GLOBAL_BACKEND_SERVICES: Collection(
        name="backendServices",
        parameter="backendService",
        scope="global",
        aggregated="backendServices",
    ),
    HEALTH_CHECKS: Collection(
        name="healthChecks", parameter="healthCheck", scope="global", aggregated="healthChecks"
    ),
}


class ClusterResources:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def methods(self) -> Methods:
        handlers: dict[str, Handler] = {}
        for kind, collection in COLLECTIONS.items():
            handlers |= {
                f"{collection.name}.get": self._get(kind, collection),
                f"{collection.name}.list": self._list(kind, collection),
                f"{collection.name}.delete": self._delete(kind, collection),
            }
            if collection.aggregated is not None:
                listed = self._aggregated(collection.aggregated)
                handlers[f"{collection.aggregated}.aggregatedList"] = listed
        return handlers

    def inventory(self) -> list[JsonObject]:
        return [
            {"kind": f"compute.{collection.parameter}", "name": key}
            for kind, collection in COLLECTIONS.items()
            for key, _ in existing(self._context, kind)
        ]

    def _find(self, kind: Kind[JsonObject], collection: Collection, params: JsonObject) -> str:
        """The key of the resource that a request names. Raises CloudError."""
        key = f"{collection.place(params)}{params[collection.parameter]}"
        if key not in dict(existing(self._context, kind)):
            raise google_error(404, f"The resource '{collection.path(key)}' was not found")
        return key

    def _get(self, kind: Kind[JsonObject], collection: Collection) -> Handler:
        def get(params: JsonObject, body: JsonObject) -> JsonObject:
            key = self._find(kind, collection, params)
            return public_fields(dict(existing(self._context, kind))[key])

        return get

    def _list(self, kind: Kind[JsonObject], collection: Collection) -> Handler:
        def list_(params: JsonObject, body: JsonObject) -> JsonObject:
            _refuse_filter(params)
            listed = self._existing_or_claimed(kind, prefix=collection.place(params))
            return {
                "kind": f"compute#{collection.parameter}List",
                "id": f"{collection.place(params)}{collection.name}",
                "items": [public_fields(resource) for _, resource in listed],
            }

        return list_

    def _existing_or_claimed(
        self, kind: Kind[JsonObject], *, prefix: str
    ) -> Iterator[tuple[str, JsonObject]]:
        """Also what clusters that are there have; what is on record is older."""
        claimed = dict(in_use(self._context, kind, prefix=prefix))
        yield from (claimed | dict(existing(self._context, kind, prefix=prefix))).items()

    def _aggregated(self, member: str) -> Handler:
        """Of all places: of several kinds where the API has methods of their own for each."""
        kinds = {k: c for k, c in COLLECTIONS.items() if c.aggregated == member}

        def aggregated(params: JsonObject, body: JsonObject) -> JsonObject:
            _refuse_filter(params)
            items: dict[str, JsonObject] = {}
            for kind, collection in kinds.items():
                for key, resource in self._existing_or_claimed(
                    kind, prefix=f"{params['project']}/"
                ):
                    in_global = collection.scope == "global"
                    place = "global" if in_global else f"{collection.scope}s/{key.split('/')[1]}"
                    items.setdefault(place, {member: []})[member].append(public_fields(resource))
            (of_member,) = {collection.parameter for collection in kinds.values()}
            return {"kind": f"compute#{of_member}AggregatedList", "items": items}

        return aggregated

    def _delete(self, kind: Kind[JsonObject], collection: Collection) -> Handler:
        def delete(params: JsonObject, body: JsonObject) -> JsonObject:
            with self._store.lock:
                key = self._find(kind, collection, params)
                link = f"{API}/{collection.path(key)}"
                for user in users_of(self._context, link):
                    raise compute_answers.in_use(link, user)
                self._store.delete(kind, key)
            _, project, *scope = collection.path(key).split("/")[:-2]
            return done(project, "/".join(scope), link, "delete")

        return delete


def existing(
    context: Context, kind: Kind[JsonObject], *, prefix: str = ""
) -> Iterator[tuple[str, JsonObject]]:
    """Key and resource of those that Google has not removed by itself yet."""
    for key, resource in context.store.items(kind, prefix=prefix):
        until = resource.get("_until")
        if until is None or until > time.time():
            yield key, resource


def users_of(context: Context, link: str) -> Iterator[str]:
    """Links of the resources that refer to this one."""
    for kind in COLLECTIONS:
        for _, resource in existing(context, kind):
            fields = {k: v for k, v in resource.items() if k not in _NO_USE}
            if link in _strings(fields):
                yield resource["selfLink"]


def _strings(value: Any) -> Iterator[str]:
    """In lists and objects, too: a URL map has its backend services in path matchers."""
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _strings(inner)
        case list():
            for inner in value:
                yield from _strings(inner)
        case _:
            pass


def public_fields(resource: JsonObject) -> JsonObject:
    """Without the fields that only the simulation knows, which begin with `_`."""
    return {k: v for k, v in resource.items() if not k.startswith("_")}


def _refuse_filter(params: JsonObject) -> None:
    if params.get("filter"):
        raise not_simulated("The rehearsal's cloud does not simulate filters of Compute's lists.")
