"""What the cluster looks like now: lists and watches kept in memory, and a bell that rings when
something changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fleet_controller.api import (
    API_VERSION,
    EVENTS_NAMESPACE,
    POOL_KIND,
    POOL_PLURAL,
    REPORT_PLURAL,
)
from fleet_controller.state import (
    Node,
    Pool,
    Report,
    Warned,
    read_node,
    read_pool,
    read_report,
    read_warned,
)
from kubeapi import ApiError, Client, Event, Unreachable, list_and_watch
from kubeapi.client import path_of
from telemetry import log

EVENT_SOURCE = "slicewright-fleet-controller"
# GPU pods are asked for by any resource of the vendor: whole GPUs, slices, shared ones.
_GPU_RESOURCE_PREFIX = "nvidia.com/"

T = TypeVar("T")


class Collection(Generic[T]):
    """One kind of object, parsed, by name. `follow` fills it in a thread of its own; reads may come
    from any thread.
    """

    def __init__(
        self, path: str, read: Callable[[Mapping[str, Any]], T], bell: threading.Event
    ) -> None:
        self.path = path
        self.listed = threading.Event()
        """Set once the first list came in."""
        self.error: str | None = None
        """Why the newest state cannot be had; None while it can."""
        self._read = read
        self._bell = bell
        self._lock = threading.Lock()
        self._items: dict[str, tuple[int, T]] = {}

    def all(self) -> dict[str, T]:
        with self._lock:
            return {name: item for name, (_, item) in self._items.items()}

    def put(self, raw: Mapping[str, Any]) -> None:
        """An object as the API server just answered it. An older one than what is known already is
        ignored.
        """
        parsed = self._parsed(raw)
        if parsed is None:
            return
        name, version, item = parsed
        with self._lock:
            known = self._items.get(name)
            if known is None or known[0] < version:
                self._items[name] = (version, item)
        self._bell.set()

    def follow(self, client: Client, stop: threading.Event) -> None:
        """Until `stop` is set."""
        for event in list_and_watch(
            client, self.path, stop=stop, backoff_max_s=5.0, on_error=self._failed
        ):
            self._apply(event)
            self.error = None

    def _apply(self, event: Event) -> None:
        if event.type == "LISTED":
            parsed = [p for p in map(self._parsed, event.items) if p]
            with self._lock:
                self._items = {name: (version, item) for name, version, item in parsed}
            self.listed.set()
            self._bell.set()
        elif event.type == "DELETED":
            with self._lock:
                self._items.pop(event.object["metadata"]["name"], None)
            self._bell.set()
        elif event.type in ("ADDED", "MODIFIED"):
            self.put(event.object)

    def _parsed(self, raw: Mapping[str, Any]) -> tuple[str, int, T] | None:
        """One object that nobody can read must not hide the others."""
        try:
            return raw["metadata"]["name"], int(raw["metadata"]["resourceVersion"]), self._read(raw)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            log.warning("object not understood", path=self.path, error=f"{type(e).__name__}: {e}")
            return None

    def _failed(self, error: ApiError | Unreachable | ValueError) -> None:
        text = (
            f"HTTP {error.status}: {error.message}" if isinstance(error, ApiError) else str(error)
        )
        if text != self.error:
            log.warning("cluster not readable", path=self.path, error=text)
        self.error = text


@dataclass
class Cluster:
    """The controller's eyes."""

    client: Client
    bell: threading.Event
    nodes: Collection[Node]
    pools: Collection[Pool]
    reports: Collection[Report]

    @classmethod
    def of(cls, client: Client) -> Cluster:
        bell = threading.Event()
        return cls(
            client=client,
            bell=bell,
            nodes=Collection(path_of("v1", "nodes"), read_node, bell),
            pools=Collection(path_of(API_VERSION, POOL_PLURAL), read_pool, bell),
            reports=Collection(path_of(API_VERSION, REPORT_PLURAL), read_report, bell),
        )

    def follow(self, stop: threading.Event) -> None:
        """Starts the threads; they end with the process."""
        for collection in (self.nodes, self.pools, self.reports):
            threading.Thread(
                target=collection.follow,
                args=(self.client, stop),
                name=collection.path,
                daemon=True,
            ).start()

    def trouble(self) -> str | None:
        """Why the picture is not whole; None when it is."""
        for collection in (self.pools, self.nodes, self.reports):
            if not collection.listed.is_set():
                return f"{collection.path} not listed yet" + (
                    f": {collection.error}" if collection.error else ""
                )
        return None

    def warned(self) -> dict[str, Warned]:
        """Our Warning Events, by name. Raises ApiError or Unreachable."""
        path = path_of("v1", "events", namespace=EVENTS_NAMESPACE)
        selector = f"involvedObject.kind={POOL_KIND},source={EVENT_SOURCE},type=Warning"
        listed = self.client.get(path, fieldSelector=selector)
        return {warned.name: warned for warned in map(read_warned, listed.get("items") or ())}

    def holders(self, node: str) -> tuple[str, ...]:
        """Pods on a node that ask for GPUs and have not ended. Raises ApiError or Unreachable."""
        selector = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        listed = self.client.get(path_of("v1", "pods"), fieldSelector=selector)
        pods = [pod for pod in listed.get("items") or () if _asks_for_gpus(pod)]
        return tuple(
            sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)
        )


def _asks_for_gpus(pod: Mapping[str, Any]) -> bool:
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return any(
        resource.startswith(_GPU_RESOURCE_PREFIX)
        for container in containers
        for resource in (container.get("resources") or {}).get("requests") or ()
    )
