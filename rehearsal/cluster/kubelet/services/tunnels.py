"""The API server's connections into the cluster: HTTP CONNECT on a Unix socket.

The API server dials a Service's clusterIP, for an aggregated API or a webhook, or a kubelet. The
first is passed on to one of the Service's pods, anything else on a loopback address to where it
says.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from slicewright.rehearsal.cluster.kubelet.services.proxy import Stream, both_ways
from slicewright.rehearsal.cluster.kubelet.services.routing import Backend

_LONGEST_HEAD: Final = 8192
Leads = Callable[[str, int], tuple[Backend, ...] | None]
"""(clusterIP, port) -> its pods in the order to try; None for an address of no Service."""


async def serve(path: Path, leads: Leads) -> asyncio.Server:
    """Listens at `path` until the server is closed. Raises OSError."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = _target(await reader.readuntil(b"\r\n\r\n"))
            to = await _open(target, leads)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
            with contextlib.suppress(OSError):
                writer.write(f"HTTP/1.1 502 {' '.join(str(e).split())}\r\n\r\n".encode())
                await writer.drain()
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await both_ways((reader, writer), to)
        finally:
            writer.close()

    return await asyncio.start_unix_server(connected, sock=_listening(path), limit=_LONGEST_HEAD)


def _listening(path: Path) -> socket.socket:
    """A socket whose path may be longer than the 107 bytes of a Unix socket's address."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        made.bind(f"/proc/self/fd/{directory}/{path.name}")
    except OSError:
        made.close()
        raise
    finally:
        os.close(directory)
    return made


def _target(head: bytes) -> Backend:
    """Raises ValueError for what is no CONNECT."""
    words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split()
    if len(words) != 3 or words[0] != "CONNECT":
        raise ValueError("only CONNECT is served")
    host, _, port = words[1].rpartition(":")
    return host.strip("[]"), int(port)


async def _open(target: Backend, leads: Leads) -> Stream:
    """Raises OSError, ValueError."""
    found = leads(*target)
    if found is None:
        if not ipaddress.ip_address(target[0]).is_loopback:
            raise ValueError(f"{target[0]} is neither a Service nor on this machine")
        found = (target,)
    for backend in found:
        try:
            return await asyncio.open_connection(*backend)
        except OSError:
            continue  # it has just ended
    raise ConnectionRefusedError(f"no pod answers for {target[0]}:{target[1]}")
