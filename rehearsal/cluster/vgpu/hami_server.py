"""`scheduler` of HAMi's image: the extender over HTTPS, on the pod's address."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from slicewright.kubeapi import JsonObject
from slicewright.kubeapi.client import ApiError, Client, Unreachable
from slicewright.rehearsal.cluster.vgpu.hami_extender import Extender
from slicewright.telemetry.signals import at_signal

Answers = Mapping[str, Callable[[JsonObject], JsonObject]]
"""Path -> answer to a request's body."""


def serve(
    extender: Extender, address: tuple[str, int], certificate: Path | None, key: Path | None
) -> ThreadingHTTPServer:
    """A server that answers in threads of its own. Without a certificate it speaks plain HTTP."""
    answers: Answers = {
        "/filter": extender.filter,
        "/bind": extender.bind,
        "/webhook": extender.admit,
        "/webhook/mutating": extender.admit,
    }

    class Handler(_Handler):
        table = answers

    server = ThreadingHTTPServer(address, Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, name="extender", daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    table: ClassVar[Answers] = {}

    def do_GET(self) -> None:
        known = self.path in ("/healthz", "/readyz")
        self._send(200 if known else 404, b"ok" if known else b"not found")

    def do_POST(self) -> None:
        answer = self.table.get(self.path.partition("?")[0])
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if answer is None:
            self._send(404, b"not found")
            return
        try:
            self._send(200, json.dumps(answer(json.loads(body))).encode())
        except (ApiError, Unreachable) as e:
            self._send(200, json.dumps({"Error": str(e)}).encode())

    def _send(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet: kube-scheduler asks for each pod."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--http_bind", default="0.0.0.0:9443")
    parser.add_argument("--cert_file", type=Path)
    parser.add_argument("--key_file", type=Path)
    parser.add_argument("--scheduler-name", default="hami-scheduler")
    parser.add_argument("--node-scheduler-policy", default="binpack")
    parser.add_argument("--gpu-scheduler-policy", default="spread")
    given, _ = parser.parse_known_args(arguments)
    stop = threading.Event()
    at_signal(stop.set)
    extender = Extender(
        Client.in_cluster(user_agent="hami-scheduler"),
        given.scheduler_name,
        given.node_scheduler_policy,
        given.gpu_scheduler_policy,
    )
    # All pods share this machine's network: each listens on its own address.
    host = os.environ["SLICEWRIGHT_REHEARSAL_POD_ADDRESS"]
    port = int(given.http_bind.rpartition(":")[2])
    server = serve(extender, (host, port), given.cert_file, given.key_file)
    print(f"simulated: HAMi's scheduler extender on {host}:{port}", flush=True)
    stop.wait()
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
