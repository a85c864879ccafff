"""The sockets of a simulated kubelet, of which there are two for each node, of one name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import grpc

from slicewright.rehearsal.cluster.kubelet.deviceplugin import messages
from slicewright.rehearsal.cluster.kubelet.grpc_socket import GrpcSocket

NAME = "kubelet.sock"


def socket_in(directory: Path) -> GrpcSocket:
    directory.mkdir(exist_ok=True)

    async def answer(request: Any, context: Any) -> Any:
        return messages.Empty()

    return GrpcSocket(
        directory,
        NAME,
        service=messages.REGISTRATION,
        method="Register",
        request=messages.RegisterRequest,
        handler=answer,
    )


async def answers(descriptor: int) -> bool:
    """descriptor: of the directory."""
    async with grpc.aio.insecure_channel(f"unix:/proc/self/fd/{descriptor}/{NAME}") as channel:
        rpc = channel.unary_unary(
            f"/{messages.REGISTRATION}/Register",
            lambda m: m.SerializeToString(),
            messages.Empty.FromString,
        )
        await rpc(messages.RegisterRequest(), timeout=60)
    return True


def test_it_ends_without_the_socket_of_another_node(tmp_path: Path) -> None:
    async def one_ends() -> None:
        ending, other = socket_in(tmp_path / "a"), socket_in(tmp_path / "b")
        await ending.start()
        # The number by which the first socket was bound is free again.
        descriptor = os.open(tmp_path / "b", os.O_RDONLY)
        await other.start()
        await ending.stop()
        await asyncio.sleep(0.1)  # gRPC's own thread may be the one that removes the path
        assert not (tmp_path / "a" / NAME).exists()
        assert await answers(descriptor)
        await other.stop()
        os.close(descriptor)

    asyncio.run(one_ends())


def test_a_leftover_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    async def begins() -> None:
        socket = socket_in(tmp_path)
        (tmp_path / NAME).touch()
        await socket.start()
        assert [found.name for found in tmp_path.iterdir()] == [NAME]
        assert (tmp_path / NAME).is_socket()
        await socket.stop()
        assert list(tmp_path.iterdir()) == []

    asyncio.run(begins())
