"""Faults on demand: E/faults.json, read before every call and every node that is made."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from kubeapi import JsonObject
from rehearsal.clouds.core.errors import CloudError, aws_error, google_error
from rehearsal.clouds.core.store import Store

_GOOGLE = frozenset({"container", "compute", "iam", "cloudresourcemanager"})
_USED = "faults-used"
log = logging.getLogger(__name__)


class Faults:
    def __init__(self, path: Path, store: Store) -> None:
        self._path = path
        self._store = store

    def listed(self) -> Sequence[JsonObject]:
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return ()
        except ValueError as e:
            log.warning("%s is not JSON (%s); no fault is injected", self._path, e)
            return ()
        return [f for f in found if isinstance(f, dict)] if isinstance(found, list) else ()

    def before_call(self, service: str, method: str) -> None:
        """Raises what a fault like `{"fault": "api-error", "method": "eks.CreateNodegroup", "code":
        429, "times": 1}` asks for.

        Optional: message, status (the cloud's name for the error); without times it stays for ever.
        """
        for fault in self.listed():
            if fault.get("fault") != "api-error" or fault.get("method") not in (
                method,
                f"{service}.{method}",
            ):
                continue
            if self._spend(fault):
                raise _error(service, fault)

    def of_node(self, *, pools: Sequence[str], index: int) -> JsonObject | None:
        """The fault that node `index` of a pool of any of these names is born with, as the machine
        annotation carries it.
        """
        for fault in self.listed():
            if fault.get("pool") in pools and fault.get("node") == index:
                rest = {k: v for k, v in fault.items() if k not in ("fault", "pool", "node")}
                return {"kind": fault.get("fault"), **rest}
        return None

    def _spend(self, fault: JsonObject) -> bool:
        """A fault without `times` stays for ever."""
        times = fault.get("times")
        if times is None:
            return True
        key = hashlib.sha256(json.dumps(fault, sort_keys=True).encode()).hexdigest()[:16]
        with self._store.lock:
            used = int((self._store.get(_USED, key) or {}).get("used", 0))
            if used >= int(times):
                return False
            self._store.put(_USED, key, {"used": used + 1, "fault": fault})
            return True


def _error(service: str, fault: JsonObject) -> CloudError:
    code = int(fault.get("code", 500))
    message = str(fault.get("message", f"injected by faults.json: {fault.get('method')}"))
    if service in _GOOGLE:
        return google_error(code, message, status=fault.get("status"))
    return aws_error(
        str(fault.get("status") or ("ThrottlingException" if code == 429 else "InternalFailure")),
        message,
        code=code,
    )
