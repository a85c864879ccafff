"""An API server with one Node and no pods, for NVIDIA's mig-manager."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any


class StubApi:
    """Serves on loopback; a context manager. states: the values of mig.config.state, in order."""

    def __init__(self, node: str) -> None:
        self.node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "uid": "1", "resourceVersion": "1", "labels": {}},
        }
        self.states: list[str] = []
        self._changed = threading.Condition()
        self._over = False

    def __enter__(self) -> StubApi:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.get(self)

            def do_PATCH(self) -> None:
                patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                api.label(patch["metadata"]["labels"])
                api.answer(self, api.node)

            do_PUT = do_PATCH  # noqa: N815

            def do_DELETE(self) -> None:
                api.answer(self, {"apiVersion": "v1", "kind": "Status", "status": "Success"})

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def kubeconfig(self, path: Path) -> Path:
        server = f"http://127.0.0.1:{self._server.server_port}"
        named = {"name": "stub"}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{**named, "cluster": {"server": server}}],
                    "users": [{**named, "user": {}}],
                    "contexts": [{**named, "context": {"cluster": "stub", "user": "stub"}}],
                    "current-context": "stub",
                }
            )
        )
        return path

    def label(self, labels: dict[str, str | None]) -> None:
        """Merges labels into the node's; None removes one."""
        with self._changed:
            known = self.node["metadata"]["labels"]
            before = known.get("nvidia.com/mig.config.state")
            known.update(labels)
            for name in [name for name, value in known.items() if value is None]:
                del known[name]
            state = known.get("nvidia.com/mig.config.state")
            if state != before and state is not None:
                self.states.append(state)
            self.node["metadata"]["resourceVersion"] = str(
                int(self.node["metadata"]["resourceVersion"]) + 1
            )
            self._changed.notify_all()

    def wait_for_states(self, *states: str, timeout_s: float = 180) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: tuple(self.states) == states, timeout_s), (
                self.states
            )

    def get(self, request: BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        if "watch=" in query and path.endswith("/nodes"):
            self._watch(request, listed="sendInitialEvents=true" in query)
        elif path.endswith("/nodes"):
            self.answer(request, self._list("NodeList", [self.node]))
        elif "/nodes/" in path:
            self.answer(request, self.node)
        else:
            self.answer(request, self._list("PodList", []))

    def _list(self, kind: str, items: list[Any]) -> dict[str, Any]:
        version = self.node["metadata"]["resourceVersion"]
        return {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"resourceVersion": version},
            "items": items,
        }

    def _watch(self, request: BaseHTTPRequestHandler, *, listed: bool) -> None:
        """listed: with what a list would say, and its end, first (client-go 0.35 and newer)."""
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.end_headers()
        seen = ""
        if listed:
            seen = self.node["metadata"]["resourceVersion"]
            end = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "resourceVersion": seen,
                    "annotations": {"k8s.io/initial-events-end": "true"},
                },
            }
            first = ({"type": "ADDED", "object": self.node}, {"type": "BOOKMARK", "object": end})
            request.wfile.write("".join(json.dumps(one) + "\n" for one in first).encode())
            request.wfile.flush()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda last=seen: self._over or self.node["metadata"]["resourceVersion"] != last
                )
                if self._over:
                    return
                seen = self.node["metadata"]["resourceVersion"]
                line = json.dumps({"type": "MODIFIED", "object": self.node})
            try:
                request.wfile.write(line.encode() + b"\n")
                request.wfile.flush()
            except OSError:
                return

    def answer(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        data = json.dumps(body).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
