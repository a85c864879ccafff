"""Live copies of a few small collections, for as long as a wait lasts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from kubeapi import ApiError, JsonObject, Unreachable
from rehearsal.plugins.providers.kubernetes.cluster import Cluster

_WINDOW_S: Final = 5
"""How long one watch request lasts: threads of a finished wait end within it."""
_PAUSE_S: Final = 0.5


@dataclass(frozen=True)
class Collection:
    """What to watch: a collection's path, and a field selector ("" = all of it)."""

    path: str
    field_selector: str = ""


class World(Protocol):
    """What a rule of readiness may look at beside the object itself."""

    def is_listed(self, name: str) -> bool:
        """Whether the collection has been read at least once."""

    def items(self, name: str) -> list[JsonObject]:
        """The collection's objects as last seen; empty for a name that is not there."""

    def idle_s(self, name: str) -> float:
        """Seconds since the collection last changed."""


class Snapshot:
    """Collections read once; they count as quiet."""

    def __init__(self, cluster: Cluster, collections: Mapping[str, Collection]) -> None:
        self._objects: dict[str, list[JsonObject]] = {}
        for name, collection in collections.items():
            query = (
                {"fieldSelector": collection.field_selector} if collection.field_selector else {}
            )
            self._objects[name] = _items(cluster.get(collection.path, **query))

    def is_listed(self, name: str) -> bool:
        return name in self._objects

    def items(self, name: str) -> list[JsonObject]:
        return self._objects.get(name, [])

    def idle_s(self, name: str) -> float:
        return float("inf")


class Following:
    """Watches collections in threads of its own; use as a context manager."""

    def __init__(self, cluster: Cluster, collections: Mapping[str, Collection]) -> None:
        self._cluster = cluster
        self._collections = collections
        self._objects: dict[str, dict[str, JsonObject]] = {name: {} for name in collections}
        self._listed: set[str] = set()
        self._changed_at: dict[str, float] = {}
        self._changed = threading.Condition()
        self._revision = 0
        self._stop = threading.Event()

    def __enter__(self) -> Following:
        for name, collection in self._collections.items():
            threading.Thread(
                target=self._follow,
                args=(name, collection),
                name=f"watch {collection.path}",
                daemon=True,
            ).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()

    def is_listed(self, name: str) -> bool:
        with self._changed:
            return name in self._listed

    def items(self, name: str) -> list[JsonObject]:
        with self._changed:
            return list(self._objects.get(name, {}).values())

    def idle_s(self, name: str) -> float:
        with self._changed:
            return time.monotonic() - self._changed_at.get(name, time.monotonic())

    def wait(self, seen: int, timeout_s: float) -> int:
        """Returns when something changed after revision `seen`, or after the timeout; the revision
        reached.
        """
        with self._changed:
            if self._revision == seen:
                self._changed.wait(timeout_s)
            return self._revision

    def _follow(self, name: str, collection: Collection) -> None:
        query = {"fieldSelector": collection.field_selector} if collection.field_selector else {}
        version: str | None = None
        while not self._stop.is_set():
            try:
                if version is None:
                    listed = self._cluster.get(collection.path, **query)
                    version = listed["metadata"]["resourceVersion"]
                    self._put(name, {_key(item): item for item in _items(listed)})
                version = self._watch(name, collection.path, version, query)
            except ApiError as e:
                version = None if e.status == 410 else version
                self._stop.wait(0 if e.status == 410 else _PAUSE_S)
            except (Unreachable, ValueError):
                self._stop.wait(_PAUSE_S)

    def _watch(self, name: str, path: str, version: str, query: Mapping[str, str]) -> str:
        watch = {
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WINDOW_S),
        }
        for line in self._cluster.stream(path, timeout_s=_WINDOW_S + 10, **watch):
            if self._stop.is_set():
                return version
            if not line.strip():
                continue
            event = json.loads(line)
            item = event["object"]
            if event["type"] == "ERROR":
                raise ApiError(int(item.get("code", 500)), item)
            version = item["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                with self._changed:
                    objects = dict(self._objects[name])
                if event["type"] == "DELETED":
                    objects.pop(_key(item), None)
                else:
                    objects[_key(item)] = item
                self._put(name, objects)
        return version

    def _put(self, name: str, objects: dict[str, JsonObject]) -> None:
        with self._changed:
            self._objects[name] = objects
            self._listed.add(name)
            self._changed_at[name] = time.monotonic()
            self._revision += 1
            self._changed.notify_all()


def _items(listed: JsonObject) -> list[JsonObject]:
    """A list's items, which the API spells without apiVersion and kind."""
    kind = {"apiVersion": listed["apiVersion"], "kind": str(listed["kind"]).removesuffix("List")}
    return [{**kind, **item} for item in listed.get("items") or []]


def _key(item: JsonObject) -> str:
    return str(item["metadata"]["uid"])
