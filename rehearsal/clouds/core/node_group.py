"""The machines of one pool: brought from what they are to what they should be, in steps that a
killed service can repeat.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kubeapi import JsonObject
from rehearsal.clouds.core.node_api import NodeApi
from rehearsal.clouds.core.store import Store

log = logging.getLogger(__name__)

_AT_ONCE = 16
READY_TIMEOUT_S = 120.0
"""Real clouds wait 15 to 35 minutes for a node to join; a simulated one joins in seconds or
never.
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a pool should be."""

    places: Mapping[str, int]
    """Zone or subnet -> number of nodes."""
    generation: int
    """Nodes of an older one are replaced, one after the other."""
    labels: Mapping[str, str]
    """The user's labels and taints: changed in place on the nodes that stay."""
    taints: Sequence[Mapping[str, str]]
    new_name: Callable[[str, Collection[str]], str]
    """(place, the pool's names so far) -> a name for a new node; raises NoRoom."""
    node: Callable[[str, str, int], JsonObject]
    """(name, place, index in the pool) -> the Node object that its kubelet registers."""
    surge: bool = True
    """Replacing: make the new node before the old one goes."""


class NoRoom(Exception):
    """The place cannot take another node; the message says why."""


def converge(
    store: Store,
    kind: str,
    key: str,
    api: NodeApi,
    target: Target,
    *,
    timeout_s: float = READY_TIMEOUT_S,
) -> None:
    """Returns when every wanted node is Ready and no other is left. Raises NotReady or NoRoom; what
    exists by then is on record.

    The record of a node is written before the node is made and erased after it is gone, so nothing
    is ever unknown to the store.
    """
    _reshape_staying(store, kind, key, api, target)
    stale = [r for r in _records(store, kind, key) if r["generation"] != target.generation]
    wanted = [
        place
        for place, count in sorted(target.places.items())
        for _ in range(count - _count(store, kind, key, place))
    ]
    _add(store, kind, key, api, target, wanted)
    for record in stale:
        place = record["place"]
        if not target.places.get(place):
            continue
        if target.surge:
            api.wait_ready(_add(store, kind, key, api, target, [place]), timeout_s=timeout_s)
        _drop(store, kind, key, api, [record])
        if not target.surge:
            api.wait_ready(_add(store, kind, key, api, target, [place]), timeout_s=timeout_s)
    for place in {r["place"] for r in _records(store, kind, key)}:
        here = [r for r in _records(store, kind, key) if r["place"] == place]
        # The newest go first, as instance groups do when they shrink.
        _drop(store, kind, key, api, here[target.places.get(place, 0) :])
    records = _records(store, kind, key)
    _rebirth(api, target, records)
    api.wait_ready([r["name"] for r in records], timeout_s=timeout_s)


def dissolve(store: Store, kind: str, key: str, api: NodeApi) -> None:
    """Removes every node of the pool."""
    _drop(store, kind, key, api, _records(store, kind, key))


def _records(store: Store, kind: str, key: str) -> list[JsonObject]:
    item = store.get(kind, key)
    return list(item.get("nodes", [])) if item else []


def _count(store: Store, kind: str, key: str, place: str) -> int:
    return sum(r["place"] == place for r in _records(store, kind, key))


def _add(
    store: Store, kind: str, key: str, api: NodeApi, target: Target, places: Sequence[str]
) -> list[str]:
    """A new node in each of the places; their names. Raises NoRoom after making those that had
    room.
    """
    new: list[JsonObject] = []
    full: NoRoom | None = None
    with store.lock:
        item = store.get(kind, key)
        if item is None:
            return []
        free = (i for i in itertools.count() if i not in {r["index"] for r in item["nodes"]})
        for place in places:
            try:
                name = target.new_name(place, {r["name"] for r in item["nodes"]})
            except NoRoom as e:
                full = e
                continue
            record = {
                "name": name,
                "place": place,
                "generation": target.generation,
                "index": next(free),
            }
            item["nodes"].append(record)
            new.append(record)
        store.put(kind, key, item)
    _each(new, lambda r: api.register(target.node(r["name"], r["place"], r["index"])))
    if full is not None:
        raise full
    return [r["name"] for r in new]


def _rebirth(api: NodeApi, target: Target, records: Sequence[JsonObject]) -> None:
    """Registers again what is on record but not in the cluster: deleted by hand, or the service was
    killed in between.
    """
    present = api.names()
    missing = [r for r in records if r["name"] not in present]
    _each(missing, lambda r: api.register(target.node(r["name"], r["place"], r["index"])))


def _drop(store: Store, kind: str, key: str, api: NodeApi, records: Sequence[JsonObject]) -> None:
    def drop(record: JsonObject) -> None:
        api.remove(record["name"])
        with store.lock:
            item = store.get(kind, key)
            if item is not None:
                item["nodes"] = [r for r in item["nodes"] if r["name"] != record["name"]]
                store.put(kind, key, item)

    _each(records, drop)


def _each(records: Sequence[JsonObject], step: Callable[[JsonObject], None]) -> None:
    """Machines start and end side by side, a few at a time."""
    if len(records) == 1:
        step(records[0])
    elif records:
        with ThreadPoolExecutor(min(len(records), _AT_ONCE)) as threads:
            list(threads.map(step, records))


def _reshape_staying(store: Store, kind: str, key: str, api: NodeApi, target: Target) -> None:
    """Only what the user changed is touched: a startup taint lifted by hand stays lifted, a label
    put on by hand stays on.
    """
    with store.lock:
        item = store.get(kind, key)
        if item is None:
            return
        before = item.get("applied", {"labels": {}, "taints": []})
    now: JsonObject = {"labels": dict(target.labels), "taints": [dict(t) for t in target.taints]}
    if before == now:
        return
    labels: dict[str, str | None] = {k: None for k in before["labels"] if k not in now["labels"]}
    labels |= {k: v for k, v in now["labels"].items() if before["labels"].get(k) != v}
    gone = [t for t in before["taints"] if t not in now["taints"]]
    new = [t for t in now["taints"] if t not in before["taints"]]
    for record in item["nodes"]:
        if record["generation"] == target.generation:
            api.reshape(record["name"], labels=labels, add_taints=new, drop_taints=gone)
    with store.lock:
        item = store.get(kind, key)
        if item is not None:
            item["applied"] = now
            store.put(kind, key, item)
