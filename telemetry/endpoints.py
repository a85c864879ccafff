"""The HTTP endpoints /healthz, /readyz and /metrics.

Loading Python's HTTP server takes longer than reading a machine's GPUs. So only the serving thread
loads it (`http_pages`), when it begins to serve. The port is bound at once: a client that connects
before then waits for its answer.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

from slicewright.telemetry.pages import Pages

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.server import HTTPServer

_WAITING = 16
"""Connections that the kernel keeps until they are answered."""
_PATIENCE_S = 0.5
"""The kubelet waits 3 s for an answer (infra/components/pods.py)."""


class Endpoints:
    """Answers on a listening socket until `shutdown()`."""

    def __init__(self, listening: socket.socket, pages: Pages, begin: threading.Event) -> None:
        self._listening, self._pages, self._begin = listening, pages, begin
        host, self.server_port = listening.getsockname()[:2]
        self.host_and_port = f"{f'[{host}]' if ':' in host else host}:{self.server_port}"
        """`10.0.0.5:9470`, `[fd00::5]:9470`"""
        self._lock = threading.Lock()
        self._ended = False
        self._server: HTTPServer | None = None
        threading.Thread(target=self._answer, name="http", daemon=True).start()

    def shutdown(self) -> None:
        """Returns when new connections are no longer answered."""
        with self._lock:
            self._ended = True
        self._begin.set()
        if self._server:
            self._server.shutdown()

    def _answer(self) -> None:
        self._begin.wait(_PATIENCE_S)
        from slicewright.telemetry.http_pages import server_of

        with self._listening:
            with self._lock:
                if self._ended:
                    return
                self._server = server_of(self._listening, self._pages)
            # Ends at once if `shutdown` came first.
            self._server.serve_forever()


def serve(
    address: str,
    port: int,
    *,
    alive: Callable[[], str | None],
    ready: Callable[[], str | None],
    metrics: Callable[[], str],
    begin: threading.Event | None = None,
) -> Endpoints:
    """Serves until `shutdown()`. Raises OSError if it cannot listen.

    address: IPv4 or IPv6. port: 0 for any free port. alive, ready: return None, or the reason why
    not. begin: serving starts when this event is set or after half a second, without it at once.
    """
    six = ":" in address
    listening = socket.create_server(
        (address, port),
        family=socket.AF_INET6 if six else socket.AF_INET,
        backlog=_WAITING,
        # `::` means every IPv4 and IPv6 address.
        dualstack_ipv6=six and socket.has_dualstack_ipv6(),
    )
    if begin is None:
        begin = threading.Event()
        begin.set()
    return Endpoints(listening, Pages(alive=alive, ready=ready, metrics=metrics), begin)
