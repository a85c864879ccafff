"""The nodes of one EKS node group or GKE node pool: added, replaced and removed as it asks.

Every step is recorded before it is taken, so a restarted service can repeat it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_api import NodeApi
from slicewright.rehearsal.clouds.core.store import Kind, Store

_PARALLEL_NODES = 16


class NodeRecord(TypedDict):
    """One node of a group."""

    name: str
    location: str
    """The zone (GKE) or the subnet (EKS) that it is in."""
    generation: int
    index: int
    """Its number in the group, by which faults.json names it."""
    machine: NotRequired[str]
    """Its machine type, in a group of several."""


class NodeSettings(TypedDict):
    """Labels and taints that the user set, taints in Kubernetes' form."""

    labels: dict[str, str]
    taints: list[dict[str, str]]


class GroupRecord(TypedDict):
    """What a stored node group or pool must hold for its nodes to be managed here."""

    generation: int
    """Raised by every change for which nodes must be replaced."""
    nodes: list[NodeRecord]
    applied: NodeSettings
    """What the nodes carry now."""


@dataclass(frozen=True, kw_only=True)
class DesiredNodes:
    """What the nodes of a group should be."""

    counts: Mapping[str, int]
    """Location -> number of nodes."""
    generation: int
    """Nodes of an older one are replaced, one after the other."""
    settings: NodeSettings
    """Changed in place on the nodes that stay."""
    new_name: Callable[[str, Collection[str]], str]
    """(location, names taken in the group) -> the name of a new node. Raises NoCapacity."""
    manifest: Callable[[NodeRecord], JsonObject]
    """The Node object that the node's kubelet registers."""
    check_room: Callable[[int, str], str | None] = lambda index, location: None
    """The machine type of the node of that number, in a group of several; None in others.

    Raises NoCapacity where the location has no machine for it.
    """
    surge: bool = True
    """Whether a replacement is created before the old node goes."""
    beside: bool = False
    """Whether all replacements are there before the first old node goes."""


class NoCapacity(Exception):
    """The location cannot take another node; `code` is the cloud's name for the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NodeGroup:
    """The nodes of the group that is stored under `kind` and `key`."""

    def __init__(self, store: Store, kind: Kind[Any], key: str, api: NodeApi) -> None:
        self._store = store
        self._kind = kind
        self._key = key
        self._api = api

    def converge(self, desired: DesiredNodes, *, timeout_s: float) -> None:
        """Returns when every desired node is Ready and no other is left.

        Raises NotReady or NoCapacity; the nodes that exist by then are on record. A node is
        recorded before it is created and until it is gone, so the store knows every node.
        """
        self._update_settings(desired)
        outdated = [r for r in self._records() if r["generation"] != desired.generation]
        present = [r["location"] for r in self._records()]
        self._add(
            desired,
            [
                location
                for location, count in sorted(desired.counts.items())
                for _ in range(count - present.count(location))
            ],
        )
        if desired.beside:
            staying = [r["location"] for r in outdated if desired.counts.get(r["location"])]
            self._api.wait_ready(self._add(desired, staying), timeout_s=timeout_s)
            self._remove(outdated)
            outdated = []
        for record in outdated:
            location = record["location"]
            if not desired.counts.get(location):
                continue
            if desired.surge:
                self._api.wait_ready(self._add(desired, [location]), timeout_s=timeout_s)
            self._remove([record])
            if not desired.surge:
                self._api.wait_ready(self._add(desired, [location]), timeout_s=timeout_s)
        self._remove_surplus(desired.counts)
        records = self._records()
        self._register_missing(desired, records)
        self._api.wait_ready([r["name"] for r in records], timeout_s=timeout_s)

    def recreate(
        self, desired: DesiredNodes, index: int, *, same_name: bool, timeout_s: float
    ) -> bool:
        """Ends the machine of node `index` and gives the group another; False without that node.

        same_name: as the managed instance groups of GKE do. Raises NotReady.
        """
        record = next((r for r in self._records() if r["index"] == index), None)
        if record is None:
            return False
        if same_name:
            self._api.remove(record["name"])
            self._api.register(desired.manifest(record))
            self._api.wait_ready([record["name"]], timeout_s=timeout_s)
        else:
            self._remove([record])
            self._api.wait_ready(self._add(desired, [record["location"]]), timeout_s=timeout_s)
        return True

    def end(self, name: str) -> None:
        """Ends this node's machine, and gives the group no other."""
        self._remove([record for record in self._records() if record["name"] == name])

    def remove_nodes(self) -> None:
        self._remove(self._records())

    def _load(self) -> GroupRecord | None:
        """None when the group has been deleted meanwhile."""
        record: GroupRecord | None = self._store.get(self._kind, self._key)
        return record

    def _save(self, group: GroupRecord) -> None:
        self._store.put(self._kind, self._key, group)

    def _records(self) -> list[NodeRecord]:
        group = self._load()
        return group["nodes"] if group else []

    def _update_settings(self, desired: DesiredNodes) -> None:
        """Only what the user changed: a taint removed or a label set by hand stays so."""
        with self._store.lock:
            group = self._load()
        if group is None:
            return
        before, after = group["applied"], desired.settings
        if before == after:
            return
        labels: dict[str, str | None] = {
            k: None for k in before["labels"] if k not in after["labels"]
        }
        labels |= {k: v for k, v in after["labels"].items() if before["labels"].get(k) != v}
        removed = [t for t in before["taints"] if t not in after["taints"]]
        added = [t for t in after["taints"] if t not in before["taints"]]
        for record in group["nodes"]:
            if record["generation"] == desired.generation:
                self._api.update(
                    record["name"], labels=labels, add_taints=added, remove_taints=removed
                )
        with self._store.lock:
            group = self._load()
            if group is not None:
                group["applied"] = after
                self._save(group)

    def _add(self, desired: DesiredNodes, locations: Iterable[str]) -> list[str]:
        """A new node in each of the locations; returns their names.

        Raises NoCapacity after creating the nodes that had room.
        """
        new: list[NodeRecord] = []
        full: NoCapacity | None = None
        with self._store.lock:
            group = self._load()
            if group is None:
                return []
            nodes = group["nodes"]
            for location in locations:
                indexes = {r["index"] for r in nodes}
                index = next(i for i in itertools.count() if i not in indexes)
                try:
                    machine = desired.check_room(index, location)
                    name = desired.new_name(location, {r["name"] for r in nodes})
                except NoCapacity as e:
                    full = e
                    continue
                record = NodeRecord(
                    name=name,
                    location=location,
                    generation=desired.generation,
                    index=index,
                )
                if machine is not None:
                    record["machine"] = machine
                nodes.append(record)
                new.append(record)
            self._save(group)
        _for_each(new, lambda r: self._api.register(desired.manifest(r)))
        if full is not None:
            raise full
        return [r["name"] for r in new]

    def _remove_surplus(self, counts: Mapping[str, int]) -> None:
        by_location: dict[str, list[NodeRecord]] = {}
        for record in self._records():
            by_location.setdefault(record["location"], []).append(record)
        for location, records in by_location.items():
            # The newest go first, as instance groups do when they shrink.
            self._remove(records[counts.get(location, 0) :])

    def _register_missing(self, desired: DesiredNodes, records: Sequence[NodeRecord]) -> None:
        """Those deleted by hand, and those whose creation a kill interrupted."""
        present = self._api.names()
        missing = [r for r in records if r["name"] not in present]
        _for_each(missing, lambda r: self._api.register(desired.manifest(r)))

    def _remove(self, records: Sequence[NodeRecord]) -> None:
        def remove(record: NodeRecord) -> None:
            self._api.remove(record["name"])
            with self._store.lock:
                group = self._load()
                if group is not None:
                    group["nodes"] = [n for n in group["nodes"] if n["name"] != record["name"]]
                    self._save(group)

        _for_each(records, remove)


def _for_each(records: Sequence[NodeRecord], step: Callable[[NodeRecord], None]) -> None:
    """Machines start and end in parallel, a few at a time."""
    if len(records) == 1:
        step(records[0])
    elif records:
        with ThreadPoolExecutor(min(len(records), _PARALLEL_NODES)) as threads:
            list(threads.map(step, records))
