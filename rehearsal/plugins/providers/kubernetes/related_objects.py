"""Small collections that a readiness rule looks at: listed once, or watched while a wait lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from slicewright.kubeapi import Event, JsonObject, list_and_watch
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster

_WINDOW_S: Final = 5.0
"""Length of one watch request, and so the time within which a finished wait's threads end."""
_BACKOFF_MAX_S: Final = 1.0


@dataclass(frozen=True)
class Collection:
    """What to list: a collection's path, and selectors ("" for all of it)."""

    path: str
    field_selector: str = ""
    label_selector: str = ""

    @property
    def query(self) -> dict[str, str]:
        selectors = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: selector for name, selector in selectors.items() if selector}


class RelatedObjects(Protocol):
    """What a readiness rule may look at beside the object itself.

    Objects come without apiVersion and kind, which the items of a list do not carry.
    """

    def is_listed(self, name: str) -> bool:
        """Whether the collection has been read at least once."""

    def items(self, name: str) -> list[JsonObject]:
        """The collection's objects as last seen; empty for an unknown name."""

    def idle_s(self, name: str) -> float:
        """Seconds since the collection last changed."""


class ListedObjects:
    """Collections listed once; they count as unchanged forever."""

    def __init__(self, cluster: Cluster, collections: Mapping[str, Collection]) -> None:
        self._objects: dict[str, list[JsonObject]] = {
            name: cluster.get(collection.path, **collection.query).get("items") or []
            for name, collection in collections.items()
        }

    def is_listed(self, name: str) -> bool:
        return name in self._objects

    def items(self, name: str) -> list[JsonObject]:
        return self._objects.get(name, [])

    def idle_s(self, name: str) -> float:
        return float("inf")


class WatchedObjects:
    """Collections watched in threads of its own; use as a context manager."""

    def __init__(self, cluster: Cluster, collections: Mapping[str, Collection]) -> None:
        self._cluster = cluster
        self._collections = collections
        self._objects: dict[str, dict[str, JsonObject]] = {name: {} for name in collections}
        self._changed_at: dict[str, float] = {}
        self._changed = threading.Condition()
        self._revision = 0
        self._stop = threading.Event()

    def __enter__(self) -> WatchedObjects:
        for name, collection in self._collections.items():
            threading.Thread(
                target=self._watch,
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
            return name in self._changed_at

    def items(self, name: str) -> list[JsonObject]:
        with self._changed:
            return list(self._objects.get(name, {}).values())

    def idle_s(self, name: str) -> float:
        with self._changed:
            return time.monotonic() - self._changed_at.get(name, time.monotonic())

    def wait(self, last_revision: int, timeout_s: float) -> int:
        """Waits until the revision is no longer `last_revision`, or for the timeout.

        Returns the current revision.
        """
        with self._changed:
            if self._revision == last_revision:
                self._changed.wait(timeout_s)
            return self._revision

    def _watch(self, name: str, collection: Collection) -> None:
        events = list_and_watch(
            self._cluster,
            collection.path,
            stop=self._stop,
            window_s=_WINDOW_S,
            backoff_max_s=_BACKOFF_MAX_S,
            on_error=lambda _: None,  # the wait's own timeout bounds an outage
            on_open=lambda: None,
            keep=lambda raw: raw,
            **collection.query,
        )
        for event in events:
            if event.type != "BOOKMARK":
                self._apply(name, event)

    def _apply(self, name: str, event: Event) -> None:
        with self._changed:
            objects = self._objects[name]
            if event.type == "LISTED":
                objects.clear()
                objects |= {_uid(item): item for item in event.items}
            elif event.type == "DELETED":
                objects.pop(_uid(event.object), None)
            else:
                objects[_uid(event.object)] = event.object
            self._changed_at[name] = time.monotonic()
            self._revision += 1
            self._changed.notify_all()


def _uid(item: JsonObject) -> str:
    return str(item["metadata"]["uid"])
