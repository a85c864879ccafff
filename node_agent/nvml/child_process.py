"""Child processes: reaping them, and pipes with deadlines on the monotonic clock."""

from __future__ import annotations

import os
import select
import time


def reap(pid: int, *, wait_s: float = 0.0) -> bool:
    """Reaps a child if it ends within so many seconds; whether it did."""
    deadline = time.monotonic() + wait_s
    pause = 0.0005
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    return True


def read(fd: int, size: int, deadline: float) -> bytes | None:
    """Exactly `size` bytes; None at the end of the stream or the deadline."""
    data = b""
    while len(data) < size:
        if not readable(fd, deadline):
            return None
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def read_to_end(fd: int, deadline: float) -> bytes | None:
    """All bytes until the writer closes; None when the deadline comes first."""
    data = b""
    while readable(fd, deadline):
        chunk = os.read(fd, 65536)
        if not chunk:
            return data
        data += chunk
    return None


def readable(fd: int, deadline: float) -> bool:
    """Whether data or the end of the stream comes before the deadline."""
    left = deadline - time.monotonic()
    # Not select, which fails for descriptors above 1023.
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(max(0.0, left) * 1000))


def write(fd: int, data: bytes) -> None:
    """Writes all of it."""
    while data:
        data = data[os.write(fd, data) :]
