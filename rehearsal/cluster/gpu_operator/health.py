"""The operator's health endpoints, where its Deployment's probes look for them: port 8081, /healthz
and /readyz.
"""

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

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass  # a line every ten seconds for every probe would bury what the operator says


def serve(address: str) -> ThreadingHTTPServer:
    """In a thread, on the pod's own address."""
    server = ThreadingHTTPServer((address, PORT), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
