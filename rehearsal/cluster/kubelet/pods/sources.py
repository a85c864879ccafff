"""ConfigMaps, Secrets and service-account tokens for pods, read from the API server."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol

from kubeapi.client import ApiError, Client, JsonObject, path_of

_KEEP_S = 5.0
"""How long an object is cached: a DaemonSet's pods on 64 nodes mount the same ones at once."""


class Sources(Protocol):
    def find(self, kind: str, namespace: str, name: str) -> JsonObject | None: ...

    def token(
        self, pod: JsonObject, audience: str | None, expiration_s: int
    ) -> tuple[str, float]: ...


class ApiSources:
    """Thread-safe. Both methods raise ApiError, Unreachable. A missing object is not cached."""

    def __init__(self, client: Client) -> None:
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
            found = self._client.get(path_of("v1", kind, name, namespace))
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
        answer = self._client.create(
            path_of("v1", "serviceaccounts", account, metadata["namespace"]) + "/token", request
        )
        status = answer["status"]
        expires = datetime.fromisoformat(status["expirationTimestamp"].replace("Z", "+00:00"))
        return str(status["token"]), (expires - datetime.now(UTC)).total_seconds()
