"""Pods' addresses: every pod gets its own out of 127.0.0.0/8, where all of the rehearsal's traffic
stays.
"""

from __future__ import annotations

import hashlib
import ipaddress
import socket

_CLAIM_PORT = 10250
_FIRST, _LAST = 16, 250


class NoAddress(Exception):
    """Every block, or every address of the block, is taken."""


class AddressBlock:
    """127.X.0.0/16, held against every other kubelet stand-in on this machine for as long as this
    object lives.

    The claim is a socket bound to 127.X.0.1:10250, so the kernel gives it back when the process
    dies, however it dies.
    """

    def __init__(self, seed: str) -> None:
        """seed: which block is tried first, so that a stand-in that is started again mostly finds
        its pods' addresses free.
        """
        start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")
        size = _LAST - _FIRST + 1
        for step in range(size):
            second = _FIRST + (start + step) % size
            claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                claim.bind((f"127.{second}.0.1", _CLAIM_PORT))
            except OSError:
                claim.close()
                continue
            self._claim = claim
            self.network = ipaddress.ip_network(f"127.{second}.0.0/16")
            break
        else:
            raise NoAddress(
                f"no block 127.X.0.0/16 with X from {_FIRST} to {_LAST} is free on port "
                f"{_CLAIM_PORT}"
            )
        self._used: set[str] = set()
        self._next = 256  # from 127.X.1.0 on; the first /24 is the stand-in's own

    def take(self, wish: str | None = None) -> str:
        """A free address; the wished one where it lies in the block and is free. Raises
        NoAddress.
        """
        if wish and wish not in self._used and ipaddress.ip_address(wish) in self.network:
            self._used.add(wish)
            return wish
        # Round and round instead of the lowest free one: an address is not reused while old
        # connections may linger.
        for _ in range(self.network.num_addresses):
            candidate = str(self.network[self._next])
            self._next = self._next + 1 if self._next + 1 < self.network.num_addresses - 1 else 256
            if candidate not in self._used and not candidate.endswith((".0", ".255")):
                self._used.add(candidate)
                return candidate
        raise NoAddress(f"all addresses of {self.network} are in use")

    def give_back(self, address: str) -> None:
        self._used.discard(address)

    def close(self) -> None:
        self._claim.close()
