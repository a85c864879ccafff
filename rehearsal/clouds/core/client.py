"""Client of the simulated clouds, for the provider stand-ins and the tests."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path

from kubeapi import JsonObject
from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.core.exec_credential import VARIABLE
from rehearsal.clouds.core.unix_socket import socket_address


class CloudUnreachable(Exception):
    """No simulated cloud answers; the message says why and what to do."""


class CloudClient:
    """Opens one connection per call, so it survives a restart of the service."""

    def __init__(self, environment: Path, *, timeout_s: float = 60.0) -> None:
        self._path = environment / "cloud.sock"
        self._timeout_s = timeout_s

    @classmethod
    def from_environment(cls) -> CloudClient:
        """For the rehearsal that this process runs in. Raises CloudUnreachable outside of one."""
        named = os.environ.get(VARIABLE)
        if not named:
            raise CloudUnreachable(
                f"{VARIABLE} is not set: this is the rehearsal's stand-in for a cloud "
                "provider and works only inside a rehearsal environment "
                "(make rehearse KEEP=1 prints the exports)"
            )
        return cls(Path(named))

    def call(
        self,
        service: str,
        method: str,
        params: JsonObject | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """Raises CloudError when the cloud refuses, CloudUnreachable when none answers."""
        request = {"service": service, "method": method, "params": params or {}, "body": body or {}}
        answer: JsonObject = self._send("POST", "/call", json.dumps(request).encode())["result"]
        return answer

    def inventory(self) -> dict[str, list[str]]:
        """Kind -> names; {} = nothing is left."""
        return self._send("GET", "/inventory", None)

    def is_up(self) -> bool:
        try:
            self._send("GET", "/healthz", None)
        except (CloudUnreachable, CloudError):
            return False
        return True

    def _send(self, method: str, path: str, data: bytes | None) -> JsonObject:
        connection = _UnixConnection(self._path, self._timeout_s)
        try:
            connection.request(
                method, path, data, {"Content-Type": "application/json"} if data else {}
            )
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException) as e:
            raise CloudUnreachable(
                f"no simulated cloud answers on {self._path} ({e}); is the rehearsal running?"
            ) from e
        finally:
            connection.close()
        body: JsonObject = json.loads(raw)
        if response.status >= 400:
            error = body["error"]
            raise CloudError(int(error["code"]), str(error["status"]), str(error["message"]))
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
