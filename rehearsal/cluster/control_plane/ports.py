"""A TCP port on loopback that is held from its choice until the server has bound it."""

from __future__ import annotations

import errno
import random
import socket
from pathlib import Path

from slicewright.rehearsal.cluster.control_plane.errors import ControlPlaneError

_ADDRESS = "127.0.0.1"
_LOWEST = 20000
_TRIES = 200


class HeldPort:
    """Bound but not listening: no other process gets it, and a server with SO_REUSEPORT can."""

    def __init__(self, bound: socket.socket) -> None:
        self.number: int = bound.getsockname()[1]
        self._socket = bound
        # Only after binding: set before, two starters that chose the same number would share it.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

    def release(self) -> None:
        self._socket.close()


def hold_port(preferred: int | None = None) -> HeldPort:
    """The preferred port if it is free, else another.

    Below the range of outgoing connections where possible, so that a stopped cluster finds its port
    free again. Raises ControlPlaneError when no port is free.
    """
    if preferred is not None:
        for after_restart in (False, True):
            if held := _bind(preferred, after_restart=after_restart):
                return held
    highest = _lowest_outgoing() - 1
    for _ in range(_TRIES):
        # 0 lets the kernel choose.
        many = highest - _LOWEST > _TRIES
        number = random.randint(_LOWEST, highest) if many else 0  # noqa: S311 - not a secret
        if held := _bind(number, after_restart=False):
            return held
    raise ControlPlaneError(
        f"no free TCP port found on {_ADDRESS} in {_TRIES} tries between {_LOWEST} and {highest}"
    )


def _bind(number: int, *, after_restart: bool) -> HeldPort | None:
    bound = socket.socket()
    if after_restart:
        # The kernel keeps the previous server's closed connections for a minute (TIME_WAIT).
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((_ADDRESS, number))
    except OSError as e:
        bound.close()
        if e.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise ControlPlaneError(f"{_ADDRESS}:{number} cannot be bound: {e}") from e
    return HeldPort(bound)


def _lowest_outgoing() -> int:
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
