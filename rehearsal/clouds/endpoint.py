"""The clouds' own protocols over HTTP on loopback, for clients that know only a real cloud."""

from __future__ import annotations

import errno
import logging
import socketserver
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.clouds.core.access import ADDRESS, Access, Credentials
from slicewright.rehearsal.clouds.core.errors import ConnectionLost
from slicewright.rehearsal.clouds.core.http_messages import Protocols, Request, Response
from slicewright.rehearsal.cluster.control_plane import ports

log = logging.getLogger(__name__)
_MAX_BODY_BYTES = 16 * 1024 * 1024
_TRIES = 20


class PortTaken(Exception):
    """Another process has the environment's port."""


class Endpoint(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves each request with the first of `protocols` that accepts it.

    Raises PortTaken. The port is chosen once per environment: a client's AWS_ENDPOINT_URL, say in a
    user's shell, is still right when the service was killed and runs again.
    """

    daemon_threads = True
    request_queue_size = 128
    # The kernel keeps a killed service's closed connections for a minute (TIME_WAIT).
    allow_reuse_address = True

    def __init__(self, environment: Path) -> None:
        self.protocols: Sequence[Protocols] = ()
        recorded = access.load(environment)
        if recorded is None:
            number = self._bind_new()
            recorded = Access(port=number, credentials=access.new_credentials())
            access.save(environment, recorded)
        elif not self._bind(recorded.port):
            raise PortTaken(
                f"another process has port {recorded.port} of {ADDRESS}, on which the clouds of "
                f"{environment} are known to their clients; end it, or delete "
                f"{environment / access.FILE} and take over the new port and keys with "
                "`slicewright rehearse env`"
            )
        self.access = recorded

    @property
    def credentials(self) -> Credentials:
        return self.access.credentials

    def _bind_new(self) -> int:
        for _ in range(_TRIES):
            held = ports.hold_port()
            held.release()
            if self._bind(held.number):
                return held.number
        raise PortTaken(f"other processes took each of {_TRIES} free ports of {ADDRESS}")

    def _bind(self, number: int) -> bool:
        try:
            super().__init__((ADDRESS, number), _Handler)
        except OSError as e:
            if e.errno == errno.EADDRINUSE:
                return False
            raise
        return True


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"
    # Buffers the answer, so that headers and body are sent together, and at once.
    wbufsize = -1
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self._body()
        if body is None:
            return
        path, _, query = self.path.partition("?")
        request = Request(
            method=self.command,
            path=path,
            query=query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
        )
        try:
            response = self._answer(request)
        except ConnectionLost:
            self.close_connection = True
        else:
            self._send(response)

    # The names that the base looks up.
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _body(self) -> bytes | None:
        """None where it was refused."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers:
            refused = _plain(411, "send a Content-Length: this endpoint takes no chunked bodies")
        elif not length.isdecimal():
            refused = _plain(400, f"Content-Length is {length!r}, which is not a number of bytes")
        elif int(length) > _MAX_BODY_BYTES:
            refused = _plain(413, f"a body may have {_MAX_BODY_BYTES} bytes, this one has {length}")
        else:
            return self.rfile.read(int(length))
        # What follows would be read as the next request.
        self.close_connection = True
        self._send(refused)
        return None

    def _answer(self, request: Request) -> Response:
        try:
            for protocols in self.server.protocols:
                if protocols.accepts(request):
                    return protocols.answer(request)
        except ConnectionLost:
            raise
        except Exception as e:
            log.exception("%s %s", request.method, request.path)
            return _plain(500, f"internal error of the rehearsal's cloud: {type(e).__name__}: {e}")
        return _plain(
            404,
            f"{request.method} {request.path} belongs to none of the rehearsal's clouds, neither "
            "by its path nor by its credentials",
        )

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def version_string(self) -> str:
        return "slicewright-rehearsal"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base
        log.debug(format, *args)


def _plain(status: int, message: str) -> Response:
    return Response(
        status=status,
        body=f"{message}\n".encode(),
        headers={"Content-Type": "text/plain; charset=utf-8"},
    )
