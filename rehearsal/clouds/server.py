"""HTTP over a Unix socket that only this user can open."""

from __future__ import annotations

import json
import logging
import socket
import socketserver
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from slicewright.rehearsal.clouds.core.unix_socket import socket_address
from slicewright.rehearsal.clouds.service import Cloud

log = logging.getLogger(__name__)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """GET /inventory, GET /healthz: what no real cloud has. Its APIs are on `endpoint`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, cloud: Cloud) -> None:
        self.cloud = cloud
        self._socket_path = path
        with socket_address(path) as address:
            _remove_dead_socket(address)
            super().__init__(address, _Handler)
        path.chmod(0o600)

    def server_close(self) -> None:
        super().server_close()
        self._socket_path.unlink(missing_ok=True)


class AlreadyServed(Exception):
    """Another process listens on the socket."""


def _remove_dead_socket(address: str) -> None:
    """A killed service leaves its socket file behind. Raises AlreadyServed if one answers on it."""
    if not Path(address).exists():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(address)
        except OSError:
            Path(address).unlink(missing_ok=True)
            return
    raise AlreadyServed(f"{address}: another simulated cloud already serves this environment")


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    # Buffers the answer, so that headers and body are sent together.
    wbufsize = -1

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._answer(200, {"status": "ok"})
        elif self.path == "/inventory":
            self._answer(200, self.server.cloud.inventory())
        else:
            self._answer(404, {"error": f"no {self.path}; there are /inventory and /healthz"})

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base
        log.debug(format, *args)
