"""The service's HTTP, on a unix socket that only this user can open."""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.service import Cloud

log = logging.getLogger(__name__)
_LIMIT = 64 * 1024 * 1024


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """POST /call, GET /inventory, GET /healthz."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, cloud: Cloud) -> None:
        self.cloud = cloud
        self._socket_path = path
        with short_path(path) as address:
            remove_dead_socket(address)
            super().__init__(address, _Handler)
        path.chmod(0o600)

    def server_close(self) -> None:
        super().server_close()
        self._socket_path.unlink(missing_ok=True)


class AlreadyServed(Exception):
    """Another process listens on the socket."""


def remove_dead_socket(address: str) -> None:
    """A killed service leaves its socket file behind. Raises AlreadyServed where someone answers on
    it.
    """
    if not Path(address).exists():
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(address)
        except OSError:
            Path(address).unlink(missing_ok=True)
            return
    raise AlreadyServed(f"{address}: another simulated cloud already serves this environment")


class short_path:  # noqa: N801 - used like a function
    """The path of a socket in at most 107 bytes, as the kernel wants it: long ones go through a
    descriptor of their directory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) <= 107:
            return str(self._path)
        self._descriptor = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._descriptor}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    # Headers and body leave in one packet each; without this the second waits for the first's
    # acknowledgement.
    wbufsize = -1

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._answer(200, {"status": "ok"})
        elif self.path == "/inventory":
            self._answer(200, self.server.cloud.inventory())
        else:
            self._answer(
                404,
                {
                    "error": {
                        "code": 404,
                        "status": "NOT_FOUND",
                        "message": f"no {self.path}; there are /call, /inventory, /healthz",
                    }
                },
            )

    def do_POST(self) -> None:
        if self.path != "/call":
            self._answer(
                404,
                {
                    "error": {
                        "code": 404,
                        "status": "NOT_FOUND",
                        "message": f"no {self.path}; calls go to /call",
                    }
                },
            )
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
            self._answer(e.code, e.body())
        except (ValueError, KeyError, TypeError) as e:
            log.exception("call")
            self._answer(
                400,
                {
                    "error": {
                        "code": 400,
                        "status": "BAD_REQUEST",
                        "message": f"{type(e).__name__}: {e}",
                    }
                },
            )
        except Exception as e:
            log.exception("call")
            message = f"internal error of the rehearsal's cloud: {type(e).__name__}: {e}"
            self._answer(500, {"error": {"code": 500, "status": "INTERNAL", "message": message}})
        else:
            self._answer(200, {"result": answer})

    def _request(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length", "0"))
        if not 0 < length <= _LIMIT:
            raise ValueError(
                f"a call needs a JSON body of at most {_LIMIT} bytes, this one has {length}"
            )
        request = json.loads(self.rfile.read(length))
        if not isinstance(request, dict):
            raise TypeError("a call is a JSON object with service, method, params and body")
        return request

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's word
        log.debug(format, *args)
