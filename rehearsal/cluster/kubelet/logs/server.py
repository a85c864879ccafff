"""The kubelet's HTTPS server, for `kubectl logs`: GET /containerLogs/NAMESPACE/POD/CONTAINER, and
`kubectl exec`: /exec/NAMESPACE/POD/CONTAINER, over WebSockets.

attach and port-forward are refused with a message that kubectl shows.
"""

from __future__ import annotations

import json
import logging
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from slicewright.rehearsal.cluster.kubelet.logs import files as logfiles
from slicewright.rehearsal.cluster.kubelet.remote_command import session, websocket
from slicewright.rehearsal.cluster.node import launcher

ALLOWED_CLIENT = "kube-apiserver-kubelet-client"
SIMULATED = b"this pod is simulated by kwok: it has no process and no log\n"
_STREAMS = {"attach": "attach", "portForward": "port-forward"}
"""First part of the kubelet's path -> kubectl's command."""
_FOLLOW_PAUSE_S = 0.25
_GRACE_S = 1.0
"""For a command whose client has gone."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PodLogs:
    """The logs of one pod, and a way into it."""

    directory: Path
    containers: frozenset[str]
    running: Callable[[str], bool]
    """Whether the container of that name runs; called while its log is followed."""
    execute: Callable[[str, Sequence[str], Path], subprocess.Popen[bytes]]
    """Starts a command in a container that runs; its output goes to the file."""
    ended: Callable[[int], None]
    """Called when such a command has ended, with its pid."""


Find = Callable[[str, str], PodLogs | None]
"""(namespace, pod) -> its logs; None if it has no process."""


class LogServer:
    """Serves on 127.0.0.1 until `close`; only the API server's certificate is accepted."""

    def __init__(self, pki: Path, find: Find) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki / "kubelet-serving.crt", pki / "kubelet-serving.key")
        context.load_verify_locations(pki / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.find = find
        # Each connection's thread does its handshake, so that a silent client blocks no other.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="logs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    find: Find


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def setup(self) -> None:
        self.request.settimeout(self.timeout)
        self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        if not self._is_api_server():
            self._answer(403, b"only the API server may read logs\n")
            return
        url = urlsplit(self.path)
        parts = [unquote(p) for p in url.path.split("/")[1:]]
        if parts[0] in _STREAMS:
            self._refuse(
                501, f"kubectl {_STREAMS[parts[0]]} is not simulated; kubectl logs and exec are"
            )
            return
        if parts[0] == "exec" and len(parts) == 4:
            _, namespace, pod, container = parts
            self._execute(namespace, pod, container, parse_qs(url.query).get("command", []))
            return
        if len(parts) != 4 or parts[0] != "containerLogs":
            self._answer(
                404,
                b"the kubelet stand-in serves only GET /containerLogs/NAMESPACE/POD/CONTAINER\n",
            )
            return
        query = {k: v[-1] for k, v in parse_qs(url.query).items()}
        _, namespace, pod, container = parts
        logs = self.server.find(namespace, pod)
        if logs is None:
            self._answer(200, SIMULATED)
            return
        if container not in logs.containers:
            self._answer(404, f"container {container!r} not found in pod {pod!r}\n".encode())
            return
        if query.get("timestamps") == "true":
            self._answer(
                400,
                b"the kubelet stand-in does not record the time of each line\n",
            )
            return
        self._send_log(logs, container, query)

    do_POST = do_GET  # noqa: N815 - the base class's name; streams use either method

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        _log.debug(format, *args)

    def _send_log(self, logs: PodLogs, container: str, query: dict[str, str]) -> None:
        previous = query.get("previous") == "true"
        log = logfiles.newest(logs.directory, container, previous=previous)
        if log is None:
            which = "previous terminated container" if previous else "container"
            self._answer(400, f"{which} {container!r} has written no log\n".encode())
            return
        tail = query.get("tailLines")
        try:
            data, end = logfiles.tail(log, int(tail) if tail else None)
        except OSError as e:
            self._answer(500, f"{log.name}: {e.strerror}\n".encode())
            return
        if limit := query.get("limitBytes"):
            data = data[: int(limit)]
        if query.get("follow") != "true":
            self._answer(200, data)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        self.wfile.write(data)
        self._follow(logs, container, log, end)

    def _follow(self, logs: PodLogs, container: str, log: Path, end: int) -> None:
        while True:
            running = logs.running(container)  # before reading, so that no last lines are missed
            try:
                with log.open("rb") as file:
                    file.seek(end)
                    data = file.read()
            except OSError:
                return
            if data:
                end += len(data)
                self.wfile.write(data)
                self.wfile.flush()
            if not running:
                return
            time.sleep(_FOLLOW_PAUSE_S)

    def _is_api_server(self) -> bool:
        certificate = self.request.getpeercert() or {}
        names = {
            value
            for part in certificate.get("subject", ())
            for key, value in part
            if key == "commonName"
        }
        return ALLOWED_CLIENT in names

    def _execute(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> None:
        served = self.server.find(namespace, pod)
        if served is None:
            self._refuse(501, f"pod {pod!r} is simulated by kwok: it has no process")
            return
        if not served.running(container):
            self._refuse(404, f"container {container!r} of pod {pod!r} does not run")
            return
        protocol = session.protocol(self.headers.get("Sec-WebSocket-Protocol", ""))
        key = self.headers.get("Sec-WebSocket-Key")
        if protocol is None or key is None:
            # After another refusal kubectl asks again in this way.
            self._refuse(501, "kubectl exec is simulated over WebSockets only (kubectl 1.31)")
            return
        output = served.directory / "exec" / f"{uuid.uuid4()}.log"
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch(mode=0o600)
        try:
            process = served.execute(container, command, output)
        except Exception as e:  # noqa: BLE001 - answered to whoever asked
            self._refuse(500, f"{command[:1]} cannot be started in container {container!r}: {e}")
            return
        try:
            self._switch_protocols(key, protocol)
            session.Session(connection=self.connection, reading=self.rfile, writing=self.wfile).run(
                process, output
            )
        finally:
            launcher.stop(process, grace_s=_GRACE_S)
            served.ended(process.pid)
            output.unlink(missing_ok=True)

    def _switch_protocols(self, key: str, protocol: str) -> None:
        self.send_response(101)
        for name, value in (
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", websocket.accept(key)),
            ("Sec-WebSocket-Protocol", protocol),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def _refuse(self, code: int, why: str) -> None:
        """Answers with a Status object, which the API server passes on unchanged."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"simulated kubelet: {why}",
            "code": code,
        }
        self._answer(code, json.dumps(status).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
