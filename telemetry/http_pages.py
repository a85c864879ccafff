"""Python's HTTP server with the pages of `endpoints`."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

from slicewright.telemetry.pages import Pages
from slicewright.telemetry.plain import plain_lines

_REQUEST_TIMEOUT_S = 5.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        # The base class does not bind: it would also wait for a name from the cluster's DNS.
        super().__init__(listening.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening


def server_of(listening: socket.socket, pages: Pages) -> HTTPServer:
    """A server on a listening socket. Run it with `serve_forever`."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_TIMEOUT_S
        protocol_version = "HTTP/1.1"
        server_version = "slicewright"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, pages.metrics(), "text/plain; version=0.0.4; charset=utf-8")
            elif path in ("/healthz", "/readyz"):
                problem = pages.alive() if path == "/healthz" else pages.ready()
                text = f"{plain_lines(problem) if problem else 'ok'}\n"
                self._answer(503 if problem else 200, text, "text/plain; charset=utf-8")
            else:
                self._answer(
                    404,
                    "not found; try /healthz, /readyz or /metrics\n",
                    "text/plain; charset=utf-8",
                )

        def _answer(self, status: int, text: str, content_type: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - base class's name
            pass  # the kubelet probes every few seconds

    return _Server(listening, Handler)
