"""ConfigMaps, Secrets and service-account tokens for pods, read from the API server.

Each node reads them with its kubelet's rights. The API server gives a kubelet only objects that a
pod on its node refers to, and learns of a pod's binding from a watch, as the kubelet does: for a
moment it may refuse, and is asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Protocol

from slicewright.kubeapi.client import ApiError, Client, JsonObject, path_of

_KEEP_S = 5.0
"""How long an object is cached: pods of one node mount the same ones at once."""
_LAG_S = (0.05, 0.1, 0.2, 0.4)
"""Pauses between tries while the API server may not know yet that the pod is bound to the node."""
_REFUSED = frozenset({403})
_TOKEN_REFUSED = frozenset({403, 404, 409})
"""Answers of NodeRestriction, too, which looks for the pod by name and uid."""


class Sources(Protocol):
    def find(self, kind: str, namespace: str, name: str) -> JsonObject | None: ...

    def token(
        self, pod: JsonObject, audience: str | None, expiration_s: int
    ) -> tuple[str, float]: ...


class ApiSources:
    """Thread-safe. Both methods raise ApiError, Unreachable. A missing object is not cached."""

    def __init__(self, client: Client) -> None:
        """client: of the node's kubelet, whose pods these are for."""
        self._client = client
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str, str], tuple[float, JsonObject]] = {}

    def find(self, kind: str, namespace: str, name: str) -> JsonObject | None:
        """The object, or None. kind: `configmaps`, `secrets`, `persistentvolumeclaims`, and with an
        empty namespace `persistentvolumes`.
        """
        key = (kind, namespace, name)
        now = time.monotonic()
        with self._lock:
            self._found = {k: v for k, v in self._found.items() if v[0] > now}
            if key in self._found:
                return self._found[key][1]
        try:
            path = path_of("v1", kind, name, namespace)
            found = _after_lag(lambda: self._client.get(path), _REFUSED)
        except ApiError as e:
            if e.status == 404:
                return None
            raise
        with self._lock:
            self._found[key] = (now + _KEEP_S, found)
        return found

    def token(self, pod: JsonObject, audience: str | None, expiration_s: int) -> tuple[str, float]:
        """A token and its lifetime in seconds.

        It is bound to the pod, so it names the node and is invalid once the pod is deleted.
        """
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        request: JsonObject = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": expiration_s,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
                **({"audiences": [audience]} if audience else {}),
            },
        }
        path = path_of("v1", "serviceaccounts", account, metadata["namespace"]) + "/token"
        answer = _after_lag(lambda: self._client.create(path, request), _TOKEN_REFUSED)
        status = answer["status"]
        expires = datetime.fromisoformat(status["expirationTimestamp"].replace("Z", "+00:00"))
        return str(status["token"]), (expires - datetime.now(UTC)).total_seconds()


def _after_lag(call: Callable[[], JsonObject], refusals: Collection[int]) -> JsonObject:
    """Calls again for most of a second while the answer is one of these refusals."""
    for pause_s in _LAG_S:
        try:
            return call()
        except ApiError as e:
            if e.status not in refusals:
                raise
        time.sleep(pause_s)
    return call()
