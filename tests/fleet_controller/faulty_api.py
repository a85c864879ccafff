"""An API server in memory with lists, watches and evictions, which answers some requests with
errors and drops some watches, as a seed has it.
"""

from __future__ import annotations

import copy
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from slicewright.apis import names
from slicewright.fleet_controller.cluster.collection import key_of
from slicewright.kubeapi import ApiError, Client, Unreachable
from tests.fleet_controller.api_edge import EVENTS, PODS, ApiEdge, Object

ONE_IN = 4
"""How often a fault is drawn."""
_SILENT_S = 0.02
"""How long a watch waits for news before it looks whether the test has ended."""
_LOOKS = 10
"""After how many of them a watch ends, as each does after a while."""
_WRITES = ("409", "429", "500", "lost answer")
_READS = ("429", "500")
_GONE = {"code": 410, "reason": "Expired", "message": "too old resource version"}
_WATCHES = ("410", "429", "500", "dropped", "410 later")


@dataclass
class FaultyApi:
    """Thread-safe. seed: of the faults; None: there are none."""

    seed: int | None
    edge: ApiEdge = field(default_factory=ApiEdge)
    drawn: Counter[str] = field(default_factory=Counter)
    """Which faults have been, such as `PATCH 409`."""
    healthy: bool = False
    """Whether it draws no more."""
    server: str = "https://127.0.0.1"

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._news = threading.Condition()
        self._log: list[tuple[int, str, Object]] = []
        """(version, collection, event), for watches."""
        self._compacted: Counter[str] = Counter()
        """Collection -> the earliest version from which it can be watched."""

    def as_client(self) -> Client:
        return cast("Client", self)

    # What others do.

    def put(self, path: str, body: Mapping[str, Any]) -> None:
        with self._writing():
            self.edge.put(path, body)

    def change(self, path: str, name: str, patch: Mapping[str, Any]) -> None:
        with self._writing():
            self.edge.change(path, name, patch)

    def there(self, path: str) -> dict[str, Object]:
        with self._news:
            return copy.deepcopy(self.edge.objects[path])

    # What the controller asks for.

    def get(self, path: str, **query: str) -> Object:
        with self._news:
            self._fail(self._draw("GET", _READS))
            collection, _, name = path.rpartition("/")
            if path not in self.edge.objects and collection in self.edge.objects:
                return copy.deepcopy(self.edge.objects[collection][_key(collection, name)])
            listed = self.edge.get(path, **query)
            if path == PODS and (node := _node_of(query.get("fieldSelector", ""))):
                listed["items"] = [p for p in listed["items"] if p["spec"]["nodeName"] == node]
            return listed

    def stream(self, path: str, *, timeout_s: float, **query: str) -> Iterator[bytes]:
        version = int(query["resourceVersion"])
        with self._news:
            fault = self._draw("WATCH", _WATCHES)
            if fault == "410":
                self._forget(path)
            if version < self._compacted[path]:
                raise ApiError(410, _GONE)
            self._fail("" if fault == "410" else fault)
        return self._events(path, version, fault)

    def _events(self, path: str, version: int, fault: str) -> Iterator[bytes]:
        for _ in range(_LOOKS):
            with self._news:
                fresh = [one for one in self._log if one[0] > version and one[1] == path]
                if not fresh:
                    self._news.wait(_SILENT_S)
            for at, _, event in fresh[: 1 if fault else None]:
                version = at
                yield json.dumps(event).encode()
            if fault == "410 later" and fresh:
                with self._news:
                    self._forget(path)
                yield json.dumps({"type": "ERROR", "object": _GONE}).encode()
            if fault == "dropped" and fresh:
                raise Unreachable("the connection is reset")
            if fault and fresh:
                return
            yield b""  # The reader looks whether it is to stop.

    def create(self, path: str, body: Object, **query: str) -> Object:
        with self._writing():
            fault = self._draw("POST", _WRITES)
            self._fail(fault)
            evicts = path.endswith("/eviction")
            made = self._evict(body) if evicts else self.edge.create(path, body)
            self._lose(fault)
            return made

    def patch(self, path: str, body: Any, *, kind: str = "merge", **query: str) -> Object:
        collection, _, name = path.rpartition("/")
        with self._writing():
            fault = self._draw("PATCH", _WRITES)
            self._fail(fault)
            if collection == EVENTS:
                known = self.edge.objects[EVENTS][_key(EVENTS, name)]
                self.edge.put(EVENTS, {**known, **body})
                return known
            changed = self.edge.patch(path, body, kind=kind)
            self._lose(fault)
            return changed

    def delete(self, path: str, body: Object | None = None, **query: str) -> Object:
        with self._writing():
            fault = self._draw("DELETE", _WRITES)
            self._fail(fault)
            gone = self.edge.delete(path, body)
            self._lose(fault)
            return gone

    def _evict(self, body: Object) -> Object:
        name = key_of(body)
        pod = self.edge.objects[PODS].get(name)
        if pod is None:
            raise ApiError(404, {"reason": "NotFound"})
        if pod["metadata"]["uid"] != body["deleteOptions"]["preconditions"]["uid"]:
            raise ApiError(409, {"reason": "Conflict"})
        del self.edge.objects[PODS][name]
        return {}

    # Faults.

    def _forget(self, path: str) -> None:
        """No watch can go on from what it has seen: one has to list again."""
        self.edge.version += 1
        self._compacted[path] = self.edge.version

    def _draw(self, verb: str, kinds: tuple[str, ...]) -> str:
        if self.seed is None or self.healthy or self._random.randrange(ONE_IN):
            return ""
        # Each kind comes, however few requests there are.
        fewest = min(self.drawn[f"{verb} {kind}"] for kind in kinds)
        fault = self._random.choice([k for k in kinds if self.drawn[f"{verb} {k}"] == fewest])
        self.drawn[f"{verb} {fault}"] += 1
        return fault

    def _fail(self, fault: str) -> None:
        if not fault.isdigit():
            return
        # A real Retry-After is in whole seconds; the loop waits for as long as it is asked to.
        after = 0.05 if fault == "429" else None
        raise ApiError(int(fault), {"reason": "Drawn", "message": "drawn"}, retry_after_s=after)

    def _lose(self, fault: str) -> None:
        if fault:
            raise Unreachable("the answer is lost")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Watches show what is changed in it."""
        with self._news:
            before = {path: dict(there) for path, there in self.edge.objects.items()}
            try:
                yield
            finally:
                for path, old in before.items():
                    self._note(path, old, self.edge.objects[path])
                self._news.notify_all()

    def _note(self, path: str, old: Mapping[str, Object], new: Mapping[str, Object]) -> None:
        for name in old.keys() - new.keys():
            self.edge.version += 1
            meta = {**old[name]["metadata"], "resourceVersion": str(self.edge.version)}
            gone = {"type": "DELETED", "object": {**old[name], "metadata": meta}}
            self._log.append((self.edge.version, path, gone))
        for name, body in new.items():
            if old.get(name) is not body:
                kind = "MODIFIED" if name in old else "ADDED"
                version = int(body["metadata"]["resourceVersion"])
                self._log.append((version, path, {"type": kind, "object": copy.deepcopy(body)}))


def _key(collection: str, name: str) -> str:
    return f"{names.EVENTS_NAMESPACE}/{name}" if collection == EVENTS else name


def _node_of(selector: str) -> str:
    """The node whose pods are asked for; empty: those of all."""
    first, _, node = selector.partition(",")[0].partition("=")
    return node if first == "spec.nodeName" else ""
