"""What no real cloud tells: whether the simulated ones run, and all that exists in them."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.unix_socket import socket_address


class CloudUnreachable(Exception):
    """No simulated cloud answers; the message says why and what to do."""


class CloudClient:
    """Opens one connection per call, so it survives a restart of the service."""

    def __init__(self, environment: Path, *, timeout_s: float = 60.0) -> None:
        self._path = environment / "cloud.sock"
        self._timeout_s = timeout_s

    def inventory(self) -> dict[str, list[str]]:
        """Kind -> names; {} = nothing is left."""
        return self._get("/inventory")

    def is_up(self) -> bool:
        try:
            self._get("/healthz")
        except CloudUnreachable:
            return False
        return True

    def _get(self, path: str) -> JsonObject:
        connection = _UnixConnection(self._path, self._timeout_s)
        try:
            connection.request("GET", path)
            raw = connection.getresponse().read()
        except (OSError, http.client.HTTPException) as e:
            raise CloudUnreachable(
                f"no simulated cloud answers on {self._path} ({e}); is the rehearsal running?"
            ) from e
        finally:
            connection.close()
        body: JsonObject = json.loads(raw)
        return body


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        with socket_address(self._path) as address:
            self.sock.connect(address)
