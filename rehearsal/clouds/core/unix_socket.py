"""Addresses of Unix sockets whose paths are longer than the kernel allows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LIMIT_BYTES = 107
"""sun_path of unix(7), less the terminating null byte."""


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address to bind or connect to; a long path goes through a descriptor of its directory."""
    if len(os.fsencode(path)) <= _LIMIT_BYTES:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
