"""An API server with one Node per agent, which keeps their reports, for the node agent."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from slicewright.rehearsal.cluster.control_plane import pki

_PATIENCE_S = 180


@dataclass
class StubReports:
    """Several agents' Nodes, all with the same status. For several threads."""

    resources: dict[str, str]
    ca: Path
    port: int = 0
    boot: str = "b1"
    received: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Name of the report, the token that came with it, and the report, in the order of arrival."""
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def until(self, name: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """What the last report of that name says, once it is as wanted; without its time."""
        last: dict[str, Any] = {}

        def found() -> bool:
            nonlocal last
            last = next((r for n, _, r in reversed(self.received) if n == name), {})
            return bool(last) and wanted(last["report"])

        with self._changed:
            assert self._changed.wait_for(found, _PATIENCE_S), f"{name}: the last one: {last}"
        return {k: v for k, v in last["report"].items() if k != "time"}

    def node(self, name: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": {}},
            "status": {
                "nodeInfo": {"bootID": self.boot},
                "capacity": self.resources,
                "allocatable": self.resources,
            },
        }

    def keep(self, name: str, token: str, report: dict[str, Any]) -> None:
        with self._changed:
            self.received.append((name, token, report))
            self._changed.notify_all()


@contextmanager
def serving(directory: Path, resources: dict[str, str]) -> Iterator[StubReports]:
    keys = pki.ensure(directory / "pki")
    # Agents are ordinary users.
    ca = directory / "ca.crt"
    ca.write_bytes(keys.ca.read_bytes())
    api = StubReports(resources=resources, ca=ca)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, name = self.path.split("?")[0].split("/")[-2:]
            if kind == "nodes":
                self._answer(200, api.node(name))
            else:
                self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound"})

        def do_PATCH(self) -> None:
            report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = self.path.split("?")[0].rpartition("/")[2]
            api.keep(name, self.headers["Authorization"].removeprefix("Bearer "), report)
            self._answer(200, report)

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.cert("apiserver"), keys.key("apiserver"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    api.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
