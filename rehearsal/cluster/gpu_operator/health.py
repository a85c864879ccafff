"""The health endpoints that the operator's Deployment probes: /healthz, /readyz on port 8081."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8081


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path.split("?")[0] in ("/healthz", "/readyz")
        body = b"ok" if known else b"not found"
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass  # no line in the operator's log for each probe


def serve(address: str) -> ThreadingHTTPServer:
    """Serves in a thread, on the pod's address."""
    server = ThreadingHTTPServer((address, PORT), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
