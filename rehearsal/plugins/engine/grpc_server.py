"""A gRPC server with the engine's limits, and the life of a process that the engine launches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, NoReturn

import grpc

from slicewright.telemetry.signals import at_signal

_MESSAGE_LIMIT = 400 * 1024 * 1024
"""Bytes; the engine's own limit. gRPC's default of 4 MiB is too little for a large ConfigMap."""
_THREADS = 256
"""A waiting operation holds its thread, and the engine's `--parallel` has no upper limit.
Threads start only when needed.
"""
_PARENT_CHECK_S = 1.0
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
    ("grpc.max_send_message_length", _MESSAGE_LIMIT),
)


def new_server() -> Any:
    """A gRPC server for large messages and many waiting operations."""
    return grpc.server(futures.ThreadPoolExecutor(max_workers=_THREADS), options=CHANNEL_OPTIONS)


def serve_until_stopped(
    add: Callable[[Any], None], leave: Callable[[], None] = lambda: None
) -> NoReturn:
    """Prints the port, serves what `add` registers, and at the end calls `leave` and exits.

    Ends on SIGINT, SIGTERM, or when the parent process has exited. The engine sends SIGINT, and
    kills a plugin that has not exited after five seconds.
    """
    stopped = threading.Event()
    at_signal(stopped.set)
    parent = os.getppid()
    server = new_server()
    add(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    while not stopped.wait(_PARENT_CHECK_S):
        if os.getppid() != parent:
            break
    leave()
    server.stop(grace=None)
    # Not sys.exit: a thread that still waits for a cluster would keep the process running.
    os._exit(0)
