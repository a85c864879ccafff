"""The HTTP endpoints /healthz, /readyz and /metrics."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from telemetry.plain import plain_lines

_REQUEST_TIMEOUT_S = 5.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # As the base class, which would also ask the cluster's DNS for a name, and wait for it.
        TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)


class _Server6(_Server):
    address_family = socket.AF_INET6


def host_and_port(server: HTTPServer) -> str:
    """`10.0.0.5:9470`, `[fd00::5]:9470`"""
    host = str(server.server_address[0])
    return f"{f'[{host}]' if ':' in host else host}:{server.server_port}"


def serve(
    address: str,
    port: int,
    *,
    alive: Callable[[], str | None],
    ready: Callable[[], str | None],
    metrics: Callable[[], str],
) -> HTTPServer:
    """Serves until `shutdown()`. Raises OSError if it cannot listen.

    address: IPv4 or IPv6. alive, ready: return None, or the reason why not. port: 0 for any free
    one.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_TIMEOUT_S
        protocol_version = "HTTP/1.1"
        server_version = "slicewright"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, metrics(), "text/plain; version=0.0.4; charset=utf-8")
            elif path in ("/healthz", "/readyz"):
                problem = alive() if path == "/healthz" else ready()
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

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
            pass  # the kubelet probes every few seconds

    server = (_Server6 if ":" in address else _Server)((address, port), Handler)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server
