"""Cloud Routers of the simulated Compute Engine, which Cloud NAT is a part of.

Sources: Compute Engine REST reference, routers; Cloud NAT docs, "Specify subnet ranges for NAT":
a gateway for all subnets of a network and region excludes any other.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.gcp.compute_answers import API, common, done, referenced_network
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.state import ROUTERS


class Routers:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "routers.insert": self._insert,
            "routers.get": lambda params, _: self._get(_key(params)),
            "routers.patch": self._patch,
            "routers.delete": self._delete,
        }

    def _get(self, key: str) -> JsonObject:
        router = self._store.get(ROUTERS, key)
        if router is None:
            raise google_error(404, f"The resource '{_path(key)}' was not found")
        return router

    def _insert(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, region = params["project"], params["region"]
        key = f"{project}/{region}/{body.get('name', '')}"
        link = f"{API}/{_path(key)}"
        with self._store.lock:
            network = referenced_network(self._store, project, body)
            if self._store.get(ROUTERS, key):
                raise google_error(409, f"The resource '{_path(key)}' already exists")
            router = {
                **body,
                **common(link, "compute#router"),
                "network": network["selfLink"],
                "region": f"{API}/projects/{project}/regions/{region}",
            }
            self._check_nats(key, router)
            self._store.put(ROUTERS, key, router)
        return done(project, f"regions/{region}", link, "insert")

    def _patch(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _key(params)
        with self._store.lock:
            router = {**self._get(key), **body}
            self._check_nats(key, router)
            self._store.put(ROUTERS, key, router)
        return done(params["project"], f"regions/{params['region']}", router["selfLink"], "patch")

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _key(params)
        with self._store.lock:
            router = self._get(key)
            self._store.delete(ROUTERS, key)
        return done(params["project"], f"regions/{params['region']}", router["selfLink"], "delete")

    def _check_nats(self, key: str, router: JsonObject) -> None:
        nats = router.get("nats") or []
        names = [nat.get("name") for nat in nats]
        if len(names) > len(set(names)):
            raise google_error(400, "Invalid value for field 'resource.nats': duplicate NAT name.")
        for nat in nats:
            for field in ("natIpAllocateOption", "sourceSubnetworkIpRangesToNat"):
                if not nat.get(field):
                    raise google_error(
                        400, f"Required field 'resource.nats[0].{field}' not specified"
                    )
        other_routers = [
            other
            for where, other in self._store.items(ROUTERS)
            if where != key
            and (other["network"], other["region"]) == (router["network"], router["region"])
            and other.get("nats")
        ]
        everything = [nat for r in (router, *other_routers) for nat in r.get("nats") or ()]
        of_all = [n for n in everything if n["sourceSubnetworkIpRangesToNat"].startswith("ALL_")]
        if of_all and len(everything) > 1:
            raise google_error(
                400,
                "Invalid value for field 'resource.nats[0].sourceSubnetworkIpRangesToNat': "
                f"'{of_all[0]['sourceSubnetworkIpRangesToNat']}'. This NAT gateway conflicts with "
                "another one of the same network and region.",
            )


def _path(key: str) -> str:
    project, region, name = key.split("/")
    return f"projects/{project}/regions/{region}/routers/{name}"


def _key(params: JsonObject) -> str:
    return f"{params['project']}/{params['region']}/{params['router']}"
