"""Bare git repositories over HTTP, by git's own server program."""

from __future__ import annotations

import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The address below which the repositories of a directory are read."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Backend)
    server.daemon_threads = True
    server.projects = directory  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Backend(http.server.BaseHTTPRequestHandler):
    """`git http-backend` is a CGI program. Source: git's documentation, git-http-backend(1)."""

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        asked = {
            "GIT_PROJECT_ROOT": str(self.server.projects),  # type: ignore[attr-defined]
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        said = subprocess.run(
            ["git", "http-backend"],
            env={**os.environ, **asked},
            input=body,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        head, _, content = said.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass
