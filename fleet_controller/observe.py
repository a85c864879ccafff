"""The state of the cluster in memory, kept current by lists and watches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fleet_controller.absent_agents import AGENT_SELECTOR
from fleet_controller.absent_operands import OPERAND_SELECTOR
from fleet_controller.api import (
    API_VERSION,
    CLUSTER_POLICY_API,
    CLUSTER_POLICY_PLURAL,
    EVENTS_NAMESPACE,
    NAMESPACE,
    POOL_KIND,
    POOL_PLURAL,
    REPORT_PLURAL,
)
from fleet_controller.drain import NodePod, read_pod
from fleet_controller.state import (
    Node,
    Pool,
    Report,
    WarningEvent,
    read_node,
    read_pool,
    read_report,
    read_warning,
)
from kubeapi import ApiError, Client, Event, JsonObject, Unreachable, list_all, list_and_watch
from kubeapi.client import path_of
from telemetry import log

EVENT_SOURCE = "slicewright-fleet-controller"
_BACKOFF_MAX_S = 5.0
_TOMBSTONES = 1000
"""Deleted objects that are remembered: a request takes 30 s at most."""

T = TypeVar("T")


class Collection(Generic[T]):
    """The objects of one kind, parsed, by name. Thread-safe; `follow` runs in its own thread."""

    def __init__(
        self, path: str, read: Callable[[Mapping[str, Any]], T], changed: threading.Event
    ) -> None:
        self.path = path
        self.listed = threading.Event()
        """Set after the first list."""
        self.error: str | None = None
        """Why the last list or watch failed; None while they succeed."""
        self.thread: threading.Thread | None = None
        """In which `follow` runs."""
        self._read = read
        self._changed = changed
        self._lock = threading.Lock()
        self._items: dict[str, tuple[int, T]] = {}
        self._deleted: dict[str, int] = {}
        """Name -> version, of the last few."""

    def all(self) -> dict[str, T]:
        with self._lock:
            return {name: item for name, (_, item) in self._items.items()}

    def put(self, raw: Mapping[str, Any]) -> None:
        """Stores an object that the API server answered, unless a newer one is known."""
        parsed = self._parsed(raw)
        if parsed is None:
            return
        name, version, item = parsed
        with self._lock:
            known = self._items.get(name)
            # The answer to a write may come after the news that the object is gone.
            newest = max(known[0] if known else 0, self._deleted.get(name, 0))
            if newest < version:
                self._items[name] = (version, item)
        self._changed.set()

    def list_again(self, client: Client) -> None:
        """Takes over what there is at this moment. Raises ApiError or Unreachable."""
        self._take(list_all(client, self.path, keep=self._parsed))

    def follow(self, client: Client, stop: threading.Event) -> None:
        """Keeps the collection current until `stop` is set, whatever happens."""
        while not stop.is_set():
            try:
                for event in list_and_watch(
                    client,
                    self.path,
                    stop=stop,
                    backoff_max_s=_BACKOFF_MAX_S,
                    on_error=self._failed,
                    on_open=self._opened,
                    keep=self._parsed,
                ):
                    self._apply(event)
            except Exception as e:  # noqa: BLE001 - a thread that ends here would end unseen
                self._failed(ValueError(f"{type(e).__name__}: {e}"))
                stop.wait(_BACKOFF_MAX_S)

    def outdated(self) -> str | None:
        """Why what is known may be out of date; None where a list or watch is open."""
        if self.thread and not self.thread.is_alive():
            return f"the thread that follows {self.path} has ended"
        return f"{self.path} is not followed: {self.error}" if self.error else None

    def _opened(self) -> None:
        self.error = None

    def _apply(self, event: Event) -> None:
        if event.type == "LISTED":
            self._take(event)
            self.listed.set()
        elif event.type == "DELETED":
            meta = event.object["metadata"]
            with self._lock:
                self._items.pop(meta["name"], None)
                self._deleted[meta["name"]] = int(meta["resourceVersion"])
                if len(self._deleted) > _TOMBSTONES:
                    del self._deleted[next(iter(self._deleted))]
            self._changed.set()
        elif event.type in ("ADDED", "MODIFIED"):
            self.put(event.object)

    def _take(self, listed: Event) -> None:
        """Replaces what is known, but for what is newer than the list."""
        at = int(listed.object["metadata"]["resourceVersion"])
        found = {name: (version, item) for name, version, item in filter(None, listed.items)}
        with self._lock:
            newer = {
                name: known
                for name, known in self._items.items()
                if known[0] > (found[name][0] if name in found else at)
            }
            self._items = {
                name: one
                for name, one in {**found, **newer}.items()
                if one[0] > self._deleted.get(name, 0)
            }
        self._changed.set()

    def _parsed(self, raw: Mapping[str, Any]) -> tuple[str, int, T] | None:
        """None for an object that cannot be parsed: it must not hide the others."""
        try:
            return raw["metadata"]["name"], int(raw["metadata"]["resourceVersion"]), self._read(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            log.warning(
                "object ignored: cannot be parsed", path=self.path, error=f"{type(e).__name__}: {e}"
            )
            return None

    def _failed(self, error: ApiError | Unreachable | ValueError) -> None:
        text = error_text(error)
        if text != self.error:
            log.warning("cluster not readable", path=self.path, error=text)
        self.error = text


@dataclass
class Cluster:
    """Nodes, pools and reports, and what is asked for when it is needed."""

    client: Client
    changed: threading.Event
    """Set whenever one of the collections changed."""
    nodes: Collection[Node]
    pools: Collection[Pool]
    reports: Collection[Report]

    @classmethod
    def of(cls, client: Client) -> Cluster:
        changed = threading.Event()
        return cls(
            client=client,
            changed=changed,
            nodes=Collection(path_of("v1", "nodes"), read_node, changed),
            pools=Collection(path_of(API_VERSION, POOL_PLURAL), read_pool, changed),
            reports=Collection(path_of(API_VERSION, REPORT_PLURAL), read_report, changed),
        )

    def follow(self, stop: threading.Event) -> None:
        """Starts one daemon thread per collection."""
        for collection in (self.nodes, self.pools, self.reports):
            collection.thread = threading.Thread(
                target=collection.follow,
                args=(self.client, stop),
                name=collection.path,
                daemon=True,
            )
            collection.thread.start()

    def list_again(self) -> None:
        """What there is at this moment, whatever the watches have shown. Raises ApiError or
        Unreachable.
        """
        for collection in (self.pools, self.nodes, self.reports):
            collection.list_again(self.client)

    def ended(self) -> str | None:
        """Which collection is not followed any more, for good; None where all are."""
        for collection in (self.pools, self.nodes, self.reports):
            if collection.thread and not collection.thread.is_alive():
                return f"the thread that follows {collection.path} has ended"
        return None

    def incomplete(self) -> str | None:
        """Which collection has not been listed yet, and why; None when all have."""
        for collection in (self.pools, self.nodes, self.reports):
            if not collection.listed.is_set():
                return f"{collection.path} not listed yet" + (
                    f": {collection.error}" if collection.error else ""
                )
        return None

    def outdated(self) -> str | None:
        """Which collection may be out of date, and why; None where none is."""
        return next(
            (why for each in (self.pools, self.nodes, self.reports) if (why := each.outdated())),
            None,
        )

    def warnings(self) -> dict[str, WarningEvent]:
        """The controller's Warning Events, by name. Raises ApiError or Unreachable."""
        path = path_of("v1", "events", namespace=EVENTS_NAMESPACE)
        selector = f"involvedObject.kind={POOL_KIND},source={EVENT_SOURCE},type=Warning"
        listed = self.client.get(path, fieldSelector=selector)
        return {event.name: event for event in map(read_warning, listed.get("items") or ())}

    def agent_pods(self) -> list[JsonObject]:
        """The agents' pods of all pools. Raises ApiError or Unreachable."""
        path = path_of("v1", "pods", namespace=NAMESPACE)
        # Version 0: from the API server's cache, as old as that may be.
        listed = self.client.get(path, labelSelector=AGENT_SELECTOR, resourceVersion="0")
        return list(listed.get("items") or ())

    def daemon_set_warnings(self) -> list[JsonObject]:
        """Warning Events about the agents' DaemonSets. Raises ApiError or Unreachable."""
        path = path_of("v1", "events", namespace=NAMESPACE)
        selector = "involvedObject.kind=DaemonSet,type=Warning"
        return list(self.client.get(path, fieldSelector=selector).get("items") or ())

    def cluster_policies(self) -> list[JsonObject]:
        """Of NVIDIA's GPU operator; none where the cluster has none. Raises ApiError or
        Unreachable.
        """
        try:
            listed = self.client.get(path_of(CLUSTER_POLICY_API, CLUSTER_POLICY_PLURAL))
        except ApiError as e:
            if e.status != 404:
                raise
            return []
        return list(listed.get("items") or ())

    def operand_pods(self, nodes: Iterable[str]) -> list[JsonObject]:
        """NVIDIA's operands on these nodes, and those that are bound to none.

        Raises ApiError or Unreachable.
        """
        found: list[JsonObject] = []
        for node in ("", *nodes):
            listed = self.client.get(
                path_of("v1", "pods"),
                labelSelector=OPERAND_SELECTOR,
                fieldSelector=f"spec.nodeName={node}",
                resourceVersion="0",
            )
            found += listed.get("items") or ()
        return found

    def pods(self, node: str) -> tuple[NodePod, ...]:
        """A node's pods that have not ended. Raises ApiError or Unreachable."""
        selector = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        listed = self.client.get(path_of("v1", "pods"), fieldSelector=selector)
        return tuple(map(read_pod, listed.get("items") or ()))


def error_text(error: ApiError | Unreachable | ValueError) -> str:
    """An error of the API server, for logs and /readyz."""
    return f"HTTP {error.status}: {error.message}" if isinstance(error, ApiError) else str(error)
