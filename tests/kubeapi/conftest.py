"""A small HTTP server that answers what a test wrote down, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from slicewright.kubeapi import Client
from slicewright.kubeapi.client import Credentials


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    """JSON, or bytes, which are sent as a stream of lines."""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    """Ends the connection before the promised length."""


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Server:
    """Gives `answers` in order, the last one for ever."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def client(self, **options: Any) -> Client:
        return Client(Credentials(server=self.url, token="secret"), timeout_s=30, **options)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def server() -> Iterator[Server]:
    script = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            script.asked.append(Asked(self.command, self.path, dict(self.headers), body))
            answer = script.next()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if isinstance(answer.body, bytes):
                self._stream(answer)
            else:
                data = json.dumps(answer.body).encode()
                self.send_header("Content-Length", str(len(data) + (100 if answer.cut else 0)))
                self.end_headers()
                self.wfile.write(data)
            self.close_connection = answer.cut

        def _stream(self, answer: Answer) -> None:
            """As an API server sends a watch: a chunk per line."""
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for line in answer.body.splitlines(keepends=True):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            if not answer.cut:
                self.wfile.write(b"0\r\n\r\n")

        # The names that the base class calls.
        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    script.url = f"http://127.0.0.1:{http.server_port}"
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield script
    finally:
        http.shutdown()
        http.server_close()


@pytest.fixture
def answer() -> type[Answer]:
    return Answer
