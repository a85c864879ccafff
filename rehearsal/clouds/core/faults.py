"""Injects the faults of E/faults.json, which is read before every call and every new node."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from slicewright.apis.names import POOL_LABEL
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.fault_file import (
    CallFault,
    Fault,
    FaultFileError,
    NodeEvent,
    NodeMark,
    Quota,
    SlowIam,
    StockOut,
    as_json,
    read,
)
from slicewright.rehearsal.clouds.core.store import Kind, Store

USES = Kind[JsonObject]("faults-used")
"""By a hash of the fault: how many calls it has seen and met, and since when it is there."""


class Faults:
    """Raises FaultFileError where the file has problems: nothing goes on with half of a file.

    What a fault has met is counted in the store, so a restart of the clouds forgets nothing. Two
    equal entries are one fault. A fault that leaves the file and comes back starts over.
    """

    def __init__(
        self,
        path: Path,
        store: Store,
        *,
        knows: Callable[[str], bool] = lambda method: True,
        quotas: Collection[str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """knows: whether a fault's `method` is one of the clouds'. quotas: theirs; None = any."""
        self._path = path
        self._store = store
        self._knows = knows
        self._quotas = quotas
        self._clock = clock
        self._lock = threading.Lock()
        self._file_version: tuple[int, int, int] | None = None
        self._faults: tuple[Fault, ...] = ()

    def call_fault(self, service: str, method: str) -> CallFault | None:
        """The first fault of the file that the call meets."""
        for fault in self._read_faults():
            if (
                isinstance(fault, CallFault)
                and fault.method in (method, f"{service}.{method}")
                and self._meets(fault)
            ):
                return fault
        return None

    def node_fault(self, *, pool: str, labels: Mapping[str, str], index: int) -> JsonObject | None:
        """The fault of node `index`, in the form that the machine annotation carries.

        A fault names the pool by the cloud's name or by Slicewright's, which is one of its labels.
        """
        for fault in self._read_faults():
            if (
                isinstance(fault, NodeMark)
                and names_pool(fault.pool, pool, labels)
                and fault.node == index
            ):
                where = ("fault", "pool", "node")
                rest = {k: v for k, v in as_json(fault).items() if k not in where}
                return {"kind": fault.fault, **rest}
        return None

    def has_stock(self, *, pool: str, labels: Mapping[str, str], index: int, zone: str) -> bool:
        """Whether the cloud has a machine in the zone for node `index` of the pool."""
        return not any(
            isinstance(fault, StockOut)
            and names_pool(fault.pool, pool, labels)
            and index >= fault.node
            and fault.zone in (None, zone)
            for fault in self._read_faults()
        )

    def quota(self, name: str) -> float | None:
        """The limit that a fault sets; None where none does."""
        limits = [f.limit for f in self._read_faults() if isinstance(f, Quota) and f.quota == name]
        return min(limits, default=None)

    def iam_delay_s(self) -> float:
        """After what time a new identity or right is known to the other services."""
        return max((f.delay_s for f in self._read_faults() if isinstance(f, SlowIam)), default=0.0)

    def due_events(self) -> Sequence[NodeEvent]:
        """Those that have not happened, and whose time has come. See `record_event`."""
        due: list[NodeEvent] = []
        for fault in self._read_faults():
            if isinstance(fault, NodeEvent):
                use = self._use(fault)
                if not use["met"] and self._clock() >= use["since"] + fault.after_s:
                    due.append(fault)
        return due

    def record_event(self, event: NodeEvent) -> None:
        with self._store.lock:
            self._store.put(USES, _key(event), self._use(event) | {"met": 1})

    def _meets(self, fault: CallFault) -> bool:
        """Counts the call; whether it meets the fault."""
        with self._store.lock:
            use = self._use(fault)
            use["seen"] += 1
            number, elapsed_s = use["seen"], self._clock() - use["since"] - fault.after_s
            chance = _chance(fault.seed, number)
            meets = bool(
                number >= fault.call
                and (fault.times is None or use["met"] < fault.times)
                and elapsed_s >= 0
                and (fault.for_s is None or elapsed_s < fault.for_s)
                and chance < fault.probability
            )
            use["met"] += meets
            self._store.put(USES, _key(fault), use)
            return meets

    def _use(self, fault: Fault) -> JsonObject:
        with self._store.lock:
            uses = self._store.get(USES, _key(fault))
            if uses is None:
                uses = {"seen": 0, "met": 0, "since": self._clock(), "fault": as_json(fault)}
                self._store.put(USES, _key(fault), uses)
            return dict(uses)

    def _read_faults(self) -> tuple[Fault, ...]:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            stat = None
        version = (stat.st_mtime_ns, stat.st_size, stat.st_ino) if stat else (0, 0, 0)
        with self._lock:
            if version != self._file_version:
                text = self._path.read_text() if stat else "[]"
                faults = read(text)
                self._refuse_unknown_names(faults)
                self._forget_others(faults)
                self._file_version, self._faults = version, faults
            return self._faults

    def _refuse_unknown_names(self, faults: Sequence[Fault]) -> None:
        """Nothing would ever meet such a fault."""
        unknown = [
            f"{self._path.name}: fault {number} ({fault.fault}): the rehearsal's clouds have no "
            f"{why}"
            for number, fault in enumerate(faults, start=1)
            if (why := self._unknown_name(fault)) is not None
        ]
        if unknown:
            raise FaultFileError("\n".join(unknown))

    def _unknown_name(self, fault: Fault) -> str | None:
        if isinstance(fault, CallFault) and not self._knows(fault.method):
            return (
                f"call {fault.method!r}; write it as in eks.CreateNodegroup or "
                "container.projects.locations.clusters.create"
            )
        quotas = self._quotas
        if isinstance(fault, Quota) and quotas is not None and fault.quota not in quotas:
            return f"quota {fault.quota!r}; they have {', '.join(sorted(quotas))}"
        return None

    def _forget_others(self, faults: Sequence[Fault]) -> None:
        keys = {_key(fault) for fault in faults}
        with self._store.lock:
            for key, _ in list(self._store.items(USES)):
                if key not in keys:
                    self._store.delete(USES, key)


def names_pool(named: str, pool: str, labels: Mapping[str, str]) -> bool:
    return named in (pool, labels.get(POOL_LABEL, ""))


def _chance(seed: int, number: int) -> float:
    """At least 0, less than 1; the same for the same call, whatever happened before it."""
    digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48


def _key(fault: Fault) -> str:
    return hashlib.sha256(json.dumps(as_json(fault), sort_keys=True).encode()).hexdigest()[:16]
