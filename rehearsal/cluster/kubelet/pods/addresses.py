"""Addresses of pods and Services, each its own, from 127.0.0.0/8."""

from __future__ import annotations

import hashlib
import ipaddress
import socket

_CLAIM_PORT = 10250
_FIRST, _LAST = 16, 250


class NoAddress(Exception):
    """All blocks, or all addresses of the block, are in use."""


class AddressBlock:
    """127.X.0.0/16, reserved on this machine until `close` or the end of the process.

    The reservation is a socket bound to 127.X.0.1:10250.
    """

    def __init__(self, seed: str) -> None:
        """seed: decides which block is tried first, so that a restart usually gets the same."""
        start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")
        size = _LAST - _FIRST + 1
        for step in range(size):
            second = _FIRST + (start + step) % size
            reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                reservation.bind((f"127.{second}.0.1", _CLAIM_PORT))
            except OSError:
                reservation.close()
                continue
            self._reservation = reservation
            self.network = ipaddress.ip_network(f"127.{second}.0.0/16")
            break
        else:
            raise NoAddress(
                f"no block 127.X.0.0/16 with X from {_FIRST} to {_LAST} is free on port "
                f"{_CLAIM_PORT}"
            )
        self._used: set[str] = set()
        self._next = 256  # from 127.X.1.0 on; the first /24 is for Services

    def take(self, preferred: str | None = None) -> str:
        """A free address: `preferred` if it is in the block and free. Raises NoAddress."""
        if (
            preferred
            and preferred not in self._used
            and ipaddress.ip_address(preferred) in self.network
        ):
            self._used.add(preferred)
            return preferred
        # In turn rather than the lowest free one: old connections to an address may linger.
        for _ in range(self.network.num_addresses):
            candidate = str(self.network[self._next])
            self._next = self._next + 1 if self._next + 1 < self.network.num_addresses - 1 else 256
            if candidate not in self._used and not candidate.endswith((".0", ".255")):
                self._used.add(candidate)
                return candidate
        raise NoAddress(f"all addresses of {self.network} are in use")

    def take_service(self, preferred: str | None = None) -> str:
        """The same for a Service, from 127.X.0.2 to 127.X.0.254. Raises NoAddress."""
        free = [
            address
            for number in range(2, 255)
            if (address := str(self.network[number])) not in self._used
        ]
        if not free:
            raise NoAddress(f"all addresses of {self.network} for Services are in use")
        chosen = preferred if preferred in free else free[0]
        self._used.add(chosen)
        return chosen

    def give_back(self, address: str) -> None:
        self._used.discard(address)

    def close(self) -> None:
        self._reservation.close()
