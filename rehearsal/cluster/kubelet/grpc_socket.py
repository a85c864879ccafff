"""A gRPC server with one method on a unix socket."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import grpc

_numbers = count()


class GrpcSocket:
    """Serves `service`/`method` at `directory`/`name`. request: the class of its message."""

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        service: str,
        method: str,
        request: Any,
        handler: Callable[[Any, Any], Awaitable[Any]],
    ) -> None:
        self._path = directory / name
        self._server: Any = None
        self._service = service
        self._handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                handler,
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        }

    async def start(self) -> None:
        """Replaces a leftover socket."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(self._service, self._handlers),)
        )
        # A unix socket's path is limited to 107 bytes; through a descriptor it is short. gRPC
        # removes the path at the server's end, when the descriptor's number may be that of another
        # directory with a socket of this name: so it gets a name that nothing else ever has.
        own = f"{self._path.name}.{next(_numbers)}"
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            server.add_insecure_port(f"unix:/proc/self/fd/{descriptor}/{own}")
        finally:
            os.close(descriptor)
        await server.start()
        self._path.with_name(own).rename(self._path)
        self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=0)
            self._server = None
            self._path.unlink(missing_ok=True)
