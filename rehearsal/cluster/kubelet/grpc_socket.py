"""A gRPC server with one method on a unix socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc


async def serve(
    directory: Path,
    descriptor: int,
    name: str,
    *,
    service: str,
    method: str,
    request: Any,
    handler: Callable[[Any, Any], Awaitable[Any]],
) -> Any:
    """A started server of `service`/`method` at `directory`/`name`, replacing a leftover socket.

    descriptor: `directory`, opened; a unix socket's path is limited to 107 bytes, and through
    the descriptor it is short. request: the class of its message.
    """
    (directory / name).unlink(missing_ok=True)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    answer = grpc.unary_unary_rpc_method_handler(
        handler,
        request_deserializer=request.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: answer}),)
    )
    server.add_insecure_port(f"unix:/proc/self/fd/{descriptor}/{name}")
    await server.start()
    return server
