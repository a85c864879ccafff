"""Every object of a cluster, so that two moments can be compared object by object.

Left out is only what changes by itself in an idle cluster:

- `metadata.resourceVersion`, `.managedFields`, `.generation`: count writes, not contents. `uid` is
  compared: an object that was deleted and made again is not the same.
- `status`: what components observe. Of a Node's, the types of its conditions are compared, because
  anyone may add one of their own. (A vanished extended resource stays in a Node's capacity as 0
  until its kubelet restarts; source: Kubernetes docs, "Advertise Extended Resources for a Node".)
- what a Lease says: its holder renews it every few seconds. That there is one is compared.
- Events: the API server deletes each after an hour.
- ComponentStatuses: not stored, and deprecated since 1.19.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slicewright.kubeapi import ApiError, Client, JsonObject

_COUNTERS: Final = ("resourceVersion", "managedFields", "generation")
_LEFT_OUT: Final = frozenset({"events", "componentstatuses"})
_LEASES: Final = "leases"
_EVERY_S: Final = 0.5
_NOT_YET: Final = (429, 503)
"""`storage is (re)initializing`: 429 (k8s.io/apiserver, storage/cacher). 503: an aggregated API."""


def settled(client: Client, *, timeout_s: float) -> JsonObject:
    """The record of a cluster that was just made, once two in a row are the same.

    Controllers fill a new cluster for a second or two: ServiceAccounts, the root CA's ConfigMaps.
    And the API server answers for a kind that is new once it has read what there is of it.
    """
    deadline = time.monotonic() + timeout_s
    found: JsonObject | None = None
    while True:
        before = found
        try:
            found = read(client)
        except ApiError as e:
            if e.status not in _NOT_YET or time.monotonic() >= deadline:
                raise
            found = None
        if found is not None and (found == before or time.monotonic() >= deadline):
            return found
        time.sleep(_EVERY_S)


def read(client: Client) -> JsonObject:
    """`<resource>.<group>/<namespace>/<name>` -> the object's contents."""
    return {
        "/".join(filter(None, (resource, _namespace(found), found["metadata"]["name"]))): _contents(
            resource, found
        )
        for resource, path in _listed(client)
        for found in _items(client, path)
    }


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """One line per object or field: what is missing, what is new, and what has another value."""
    return (
        *(f"{key} is gone" for key in sorted(before.keys() - after.keys())),
        *(f"{key} is new" for key in sorted(after.keys() - before.keys())),
        *(
            f"{key}: {change}"
            for key in sorted(before.keys() & after.keys())
            for change in _changes("", before[key], after[key])
        ),
    )


def _changes(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for field in sorted(before.keys() | after.keys()):
            inner = f"{path}[{field}]" if "." in field or "/" in field else f"{path}.{field}"
            if field not in after:
                yield f"{inner.lstrip('.')} is gone; it was {before[field]!r}"
            elif field not in before:
                yield f"{inner.lstrip('.')} is new: {after[field]!r}"
            else:
                yield from _changes(inner, before[field], after[field])
    elif before != after:
        yield f"{path.lstrip('.')} was {before!r}, is {after!r}"


def _contents(resource: str, found: JsonObject) -> JsonObject:
    metadata = {k: v for k, v in found["metadata"].items() if k not in _COUNTERS}
    rest = {k: v for k, v in found.items() if k not in ("metadata", "status")}
    if resource.startswith(_LEASES):
        del rest["spec"]
    if resource == "nodes":
        conditions = found.get("status", {}).get("conditions", [])
        rest["conditions"] = sorted(c["type"] for c in conditions)
    return {"metadata": metadata, **rest}


def _listed(client: Client) -> Iterator[tuple[str, str]]:
    """Every kind of object that can be listed: `<resource>.<group>`, and where."""
    groups = client.get("/apis")["groups"]
    places = [("", "/api/v1")]
    places += [(g["name"], f"/apis/{g['preferredVersion']['groupVersion']}") for g in groups]
    for group, place in places:
        try:
            resources = client.get(place)["resources"]
        except ApiError as e:
            if e.status in (404, 503):
                continue  # its CRD, or the server behind it, is going
            raise
        for resource in resources:
            if "list" in resource["verbs"] and resource["name"] not in _LEFT_OUT:
                name = resource["name"]
                yield (f"{name}.{group}" if group else name), f"{place}/{name}"


def _items(client: Client, path: str) -> list[JsonObject]:
    try:
        items: list[JsonObject] = client.get(path)["items"]
    except ApiError as e:
        if e.status != 404:
            raise
        return []  # its CRD is going
    return items


def _namespace(found: JsonObject) -> str:
    return str(found["metadata"].get("namespace") or "")
