"""Follows a pool from outside, by watches of its own, and has every version judged."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from slicewright.kubeapi import ApiError, Client, JsonObject, Unreachable, list_and_watch
from tests.rehearsal.scenario.whole_run.invariants import Invariants

_DOCS = Path(__file__).parents[4] / "docs" / "reference"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/slicewright-system/leases"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
_REPORTS = "/apis/slicewright.io/v1alpha1/gpunodereports"
POOLS = "/apis/slicewright.io/v1alpha1/gpupools"


def documented_reasons() -> frozenset[str]:
    """Every reason that stands in a table of the pages which list them."""
    pages = ("reasons.md", "controller-reasons.md", "rollout.md")
    text = "\n".join((_DOCS / page).read_text() for page in pages)
    rows = (line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    return frozenset(name for row in rows for name in re.findall(r"`([A-Z][A-Za-z]+)`", row))


class See(Protocol):
    def __call__(self, raw: JsonObject, *, gone: bool = False, listed: bool = False) -> None: ...


class Watcher:
    """`invariants` is written by its threads, under its lock; ask `judged` for the violations."""

    def __init__(self, client: Client, invariants: Invariants) -> None:
        self.invariants = invariants
        self._client = client
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._versions: dict[str, dict[str, int]] = {}
        """By path: the newest version that has come, of each object's uid."""
        kinds: Mapping[str, See] = {
            NODES: self._node,
            PODS: self._pod,
            _REPORTS: self._report,
            POOLS: self._pool,
            _LEASE: self._lease,
        }
        self._threads = [
            threading.Thread(target=self._follow, args=(path, see), daemon=True)
            for path, see in kinds.items()
        ]
        for path in kinds:
            self._versions[path] = {}
        for thread in self._threads:
            thread.start()

    @property
    def now(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def judged(self, *, timeout_s: float = 300) -> list[str]:
        """All violations, once its watches have brought everything that is there at this moment."""
        deadline = time.monotonic() + timeout_s
        for path in self._versions:
            # Listed anew each time: what has been deleted since never comes.
            while not self._caught_up(path):
                assert time.monotonic() < deadline, f"the watch of {path} does not catch up"
                time.sleep(0.3)
        with self._lock:
            self.invariants.judge(self.now)
            return list(self.invariants.violations)

    def _caught_up(self, path: str) -> bool:
        try:
            found = self._client.get(path)["items"]
        except (ApiError, Unreachable):
            return False
        known = self._versions[path]
        return all(known.get(o["metadata"]["uid"], 0) >= _version(o) for o in found)

    def _follow(self, path: str, see: See) -> None:
        known: dict[str, JsonObject] = {}
        for event in list_and_watch(
            self._client, path, stop=self._stop, window_s=60, backoff_max_s=1
        ):
            with self._lock:
                if event.type == "LISTED":
                    listed = {raw["metadata"]["uid"]: raw for raw in event.items}
                    for uid in known.keys() - listed.keys():
                        see(known.pop(uid), gone=True)
                    # In the order in which they were written, as far as that can still be told.
                    for raw in sorted(listed.values(), key=_version):
                        self._take(path, raw, known, see, listed=True)
                    if path == NODES:
                        self.invariants.all_listed(self.now)
                elif event.type == "DELETED":
                    known.pop(event.object["metadata"]["uid"], None)
                    self._versions[path].pop(event.object["metadata"]["uid"], None)
                    see(event.object, gone=True)
                elif event.type in ("ADDED", "MODIFIED"):
                    self._take(path, event.object, known, see)

    def _take(
        self,
        path: str,
        raw: JsonObject,
        known: dict[str, JsonObject],
        see: See,
        *,
        listed: bool = False,
    ) -> None:
        known[raw["metadata"]["uid"]] = raw
        see(raw, listed=listed)
        self._versions[path][raw["metadata"]["uid"]] = _version(raw)

    def _node(self, raw: JsonObject, *, gone: bool = False, listed: bool = False) -> None:
        self.invariants.see_node(raw, self.now, gone=gone, listed=listed)

    def _pod(self, raw: JsonObject, *, gone: bool = False, listed: bool = False) -> None:
        self.invariants.see_pod(raw, self.now, gone=gone, listed=listed)

    def _report(self, raw: JsonObject, *, gone: bool = False, listed: bool = False) -> None:
        if not gone:
            self.invariants.see_report(raw)

    def _pool(self, raw: JsonObject, *, gone: bool = False, listed: bool = False) -> None:
        if not gone:
            self.invariants.see_pool(raw, self.now)

    def _lease(self, raw: JsonObject, *, gone: bool = False, listed: bool = False) -> None:
        if not gone and raw["metadata"]["name"] == "fleet-controller":
            self.invariants.see_lease(raw, self.now)


def _version(raw: Mapping[str, Any]) -> int:
    return int(raw["metadata"]["resourceVersion"])
