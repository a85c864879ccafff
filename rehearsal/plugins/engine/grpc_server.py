"""A gRPC server with the engine's limits, and how a process that the engine launched serves, and
leaves.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, NoReturn

import grpc

_MESSAGE_LIMIT = (
    400 * 1024 * 1024
)  # the engine's own; gRPC's default of 4 MB is less than one big ConfigMap with its copies
_THREADS = 256
"""A waiting operation holds its thread, and `--parallel` has no limit worth naming; threads start
only when needed.
"""
_PARENT_CHECK_S = 1.0
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
    ("grpc.max_send_message_length", _MESSAGE_LIMIT),
)


def new_server() -> Any:
    """A gRPC server with room for big states and many waiting operations."""
    return grpc.server(futures.ThreadPoolExecutor(max_workers=_THREADS), options=CHANNEL_OPTIONS)


def serve_until_stopped(
    add: Callable[[Any], None], leave: Callable[[], None] = lambda: None
) -> NoReturn:
    """Serves what `add` registers, port on stdout, until a signal or the parent's death; then
    `leave`, and out in milliseconds.

    The engine sends SIGINT and waits five seconds for each plugin before it kills it.
    """
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    parent = os.getppid()
    server = new_server()
    add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    while not told.wait(_PARENT_CHECK_S):
        if os.getppid() != parent:
            break
    leave()
    server.stop(grace=None)
    # Not sys.exit: a thread that still waits for a cluster would keep the process for as long.
    os._exit(0)
