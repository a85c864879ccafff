"""Injected faults: E/faults.json, read before every call and every node that is created."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubeapi import JsonObject
from rehearsal.clouds.core.store import Kind, Store

USES = Kind[JsonObject]("faults-used")
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ApiFault:
    """An error that a call is to be answered with."""

    code: int
    """HTTP code."""
    message: str
    status: str | None
    """The cloud's name for the error; None = the one that belongs to the code."""


class Faults:
    def __init__(self, path: Path, store: Store) -> None:
        self._path = path
        self._store = store

    def of_call(self, service: str, method: str) -> ApiFault | None:
        """The first fault like `{"fault": "api-error", "method": "eks.CreateNodegroup", ...}`.

        `code` defaults to 500; `message` and `status` are optional. `times` says how many calls
        fail; without it, all do.
        """
        names = (method, f"{service}.{method}")
        for fault in self._listed():
            if fault.get("fault") != "api-error" or fault.get("method") not in names:
                continue
            if self._use(fault):
                return ApiFault(
                    code=int(fault.get("code", 500)),
                    message=str(
                        fault.get("message", f"injected by faults.json: {fault.get('method')}")
                    ),
                    status=fault.get("status"),
                )
        return None

    def of_node(self, *, pool: str, labels: Mapping[str, str], index: int) -> JsonObject | None:
        """The fault of node `index`, in the form that the machine annotation carries.

        A fault names the pool by the cloud's name or by Slicewright's, which is one of its labels.
        """
        names = (pool, labels.get("slicewright.io/pool", ""))
        for fault in self._listed():
            if fault.get("pool") in names and fault.get("node") == index:
                rest = {k: v for k, v in fault.items() if k not in ("fault", "pool", "node")}
                return {"kind": fault.get("fault"), **rest}
        return None

    def _listed(self) -> Sequence[JsonObject]:
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return ()
        except ValueError as e:
            log.warning("%s is not JSON (%s); no fault is injected", self._path, e)
            return ()
        return [f for f in found if isinstance(f, dict)] if isinstance(found, list) else ()

    def _use(self, fault: JsonObject) -> bool:
        """Whether the fault still applies; counts the use."""
        times = fault.get("times")
        if times is None:
            return True
        key = hashlib.sha256(json.dumps(fault, sort_keys=True).encode()).hexdigest()[:16]
        with self._store.lock:
            used = int((self._store.get(USES, key) or {}).get("used", 0))
            if used >= int(times):
                return False
            self._store.put(USES, key, {"used": used + 1, "fault": fault})
            return True
