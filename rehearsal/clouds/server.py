"""HTTP over a Unix socket that only this user can open."""

from __future__ import annotations

import json
import logging
import socket
import socketserver
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from rehearsal.clouds.core.errors import CloudError, ConnectionLost
from rehearsal.clouds.core.unix_socket import socket_address
from rehearsal.clouds.service import Cloud

log = logging.getLogger(__name__)
_MAX_BODY_BYTES = 64 * 1024 * 1024


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """POST /call, GET /inventory, GET /healthz."""

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
            self._refuse(404, "NOT_FOUND", f"no {self.path}; there are /call, /inventory, /healthz")

    def do_POST(self) -> None:
        if self.path != "/call":
            self._refuse(404, "NOT_FOUND", f"no {self.path}; calls go to /call")
            return
        try:
            request = self._request()
            answer = self.server.cloud.call(
                str(request["service"]),
                str(request["method"]),
                request.get("params") or {},
                request.get("body") or {},
            )
        except CloudError as e:
            self._refuse(e.code, e.reason, e.message)
        except ConnectionLost:
            self.close_connection = True
        except (ValueError, KeyError, TypeError) as e:
            log.exception("call")
            self._refuse(400, "BAD_REQUEST", f"{type(e).__name__}: {e}")
        except Exception as e:
            log.exception("call")
            message = f"internal error of the rehearsal's cloud: {type(e).__name__}: {e}"
            self._refuse(500, "INTERNAL", message)
        else:
            self._answer(200, {"result": answer})

    def _request(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length", "0"))
        if not 0 < length <= _MAX_BODY_BYTES:
            raise ValueError(
                f"a call needs a JSON body of 1 to {_MAX_BODY_BYTES} bytes, this one has {length}"
            )
        request = json.loads(self.rfile.read(length))
        if not isinstance(request, dict):
            raise TypeError("a call must be a JSON object with service, method, params and body")
        return request

    def _refuse(self, code: int, status: str, message: str) -> None:
        self._answer(code, {"error": {"code": code, "status": status, "message": message}})

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
