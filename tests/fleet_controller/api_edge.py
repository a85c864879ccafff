"""What an API server makes of the controller's requests, in memory, with the requests counted.

Versions, subresources and patches are as in Kubernetes, as far as the controller uses them:
a write of a node's status leaves the spec as it is and takes the metadata along, any other leaves
the status; of a custom resource's status, the status alone.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from slicewright.apis import names
from slicewright.fleet_controller.cluster.collection import key_of
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.client import path_of

Object = dict[str, Any]

NODES = path_of("v1", "nodes")
PODS = path_of("v1", "pods")
EVENTS = path_of("v1", "events", namespace=names.EVENTS_NAMESPACE)
POOLS = path_of(names.API_VERSION, names.POOL_PLURAL)
REPORTS = path_of(names.API_VERSION, names.REPORT_PLURAL)
_AGENT_PODS = path_of("v1", "pods", namespace=names.NAMESPACE)
_DAEMON_SET_EVENTS = path_of("v1", "events", namespace=names.NAMESPACE)


@dataclass
class ApiEdge:
    objects: dict[str, dict[str, Object]] = field(
        default_factory=lambda: {
            path: {}
            for path in (NODES, PODS, EVENTS, POOLS, REPORTS, _AGENT_PODS, _DAEMON_SET_EVENTS)
        }
    )
    """Collection -> name -> object."""
    requests: Counter[str] = field(default_factory=Counter)
    """`PATCH nodes` -> how many."""
    version: int = 100
    largest_request: int = 0
    """Bytes of the largest body so far."""

    # What others do, which is no request of the controller's.

    def put(self, path: str, body: Mapping[str, Any]) -> None:
        self._store(path, copy.deepcopy(dict(body)))

    def change(self, path: str, name: str, patch: Mapping[str, Any]) -> None:
        self._store(path, _merged(self.objects[path][name], patch))

    def shown_to(self, cluster: Cluster) -> None:
        """What its watches would show by now."""
        for collection in cluster.followed():
            for raw in self.objects[collection.path].values():
                collection.put(raw)
            collection.listed.set()

    def as_client(self) -> Client:
        return cast("Client", self)

    # What the controller asks for.

    def get(self, path: str, **query: str) -> Object:
        if path not in self.objects:
            raise ApiError(404, {"reason": "NotFound"})
        self._count("GET", path)
        items = [copy.deepcopy(one) for one in self.objects[path].values()]
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    def create(self, path: str, body: Object) -> Object:
        self._count("POST", path, body)
        if key_of(body) in self.objects[path]:
            raise ApiError(409, {"reason": "AlreadyExists"})
        return self._store(path, copy.deepcopy(body))

    def delete(self, path: str, body: Object | None = None) -> Object:
        collection, _, name = path.rpartition("/")
        self._count("DELETE", collection)
        namespace = collection.rpartition("/namespaces/")[2].partition("/")[0]
        if self.objects[collection].pop(f"{namespace}/{name}", None) is None:
            raise ApiError(404, {"reason": "NotFound"})
        return {}

    def patch(self, path: str, body: Any, *, kind: str = "merge") -> Object:
        of_status = path.endswith("/status")
        collection, _, name = path.removesuffix("/status").rpartition("/")
        self._count("PATCH", collection, body)
        if name not in self.objects[collection]:
            raise ApiError(404, {"reason": "NotFound"})
        old = self.objects[collection][name]
        if kind == "json":
            new = _by_operations(old, body)
        else:
            asked = body.get("metadata", {}).get("resourceVersion")
            if asked is not None and asked != old["metadata"]["resourceVersion"]:
                raise ApiError(409, {"reason": "Conflict"})
            new = _merged(old, body, conditions_by_type=kind == "strategic")
        if of_status:
            new["spec"] = old["spec"]
            if collection == POOLS:
                new["metadata"] = old["metadata"]
        elif "status" in old:
            new["status"] = old["status"]
        return self._store(collection, new)

    def _count(self, verb: str, collection: str, body: Any = None) -> None:
        self.largest_request = max(self.largest_request, len(json.dumps(body)))
        self.requests[f"{verb} {collection.rpartition('/')[2]}"] += 1

    def _store(self, path: str, body: Object) -> Object:
        known = self.objects[path].get(key_of(body))
        if known is not None and _content(known) == _content(body):
            return copy.deepcopy(known)
        self.version += 1
        body = _as_stored(body)
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.version)}
        self.objects[path][key_of(body)] = body
        return copy.deepcopy(body)


def _as_stored(body: Object) -> Object:
    """Lone surrogates are no Unicode: Go's JSON decoder makes U+FFFD of each."""
    text = json.dumps(body, ensure_ascii=False)
    stored: Object = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return stored


def _content(body: Object) -> Object:
    metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
    return {**body, "metadata": metadata}


def _merged(old: Any, patch: Any, *, conditions_by_type: bool = False) -> Any:
    """A merge patch (RFC 7396); or a strategic one, of which only conditions are merged here."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    new = copy.deepcopy(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif key == "conditions" and conditions_by_type:
            new[key] = _conditions(new.get(key) or [], value)
        else:
            new[key] = _merged(new.get(key), value, conditions_by_type=conditions_by_type)
    return new


def _conditions(old: Iterable[Object], patch: Iterable[Object]) -> list[Object]:
    by_type = {one["type"]: one for one in old}
    for one in patch:
        if one.get("$patch") == "delete":
            by_type.pop(one["type"], None)
            continue
        by_type[one["type"]] = {**by_type.get(one["type"], {}), **one}
    return list(by_type.values())


def _by_operations(old: Object, operations: Iterable[Object]) -> Object:
    """A JSON patch (RFC 6902) of `test`, `add` at the end of a list, and `remove`."""
    new = copy.deepcopy(old)
    for one in operations:
        *parents, last = (
            part.replace("~1", "/").replace("~0", "~") for part in one["path"][1:].split("/")
        )
        at: Any = new
        try:
            for part in parents:
                at = at[int(part)] if isinstance(at, list) else at[part]
            place: Any = int(last) if isinstance(at, list) and last != "-" else last
            if one["op"] == "test" and at[place] != one["value"]:
                raise KeyError(last)
            if one["op"] == "remove":
                del at[place]
            elif one["op"] == "add" and last == "-":
                at.append(one["value"])
            elif one["op"] == "add":
                at[place] = one["value"]
        except (KeyError, IndexError) as e:
            raise ApiError(422, {"reason": "Invalid", "message": f"{one}: {e!r}"}) from e
    return new
