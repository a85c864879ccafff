"""What a process has to do with its children: pipes with deadlines on the monotonic clock, and
their ends.
"""

from __future__ import annotations

import os
import select
import time


def ended(pid: int, *, wait_s: float = 0.0) -> bool:
    """Whether a child of this process has ended, within so many seconds; then it is cleared
    away.
    """
    end = time.monotonic() + wait_s
    pause = 0.0005
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() >= end:
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
    """All until the writer closes; None when the deadline comes first."""
    data = b""
    while readable(fd, deadline):
        chunk = os.read(fd, 65536)
        if not chunk:
            return data
        data += chunk
    return None


def readable(fd: int, deadline: float) -> bool:
    """Whether there is something to read, or the end, before the deadline."""
    left = deadline - time.monotonic()
    # poll, not select: select fails above 1024 descriptors.
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(max(0.0, left) * 1000))


def write(fd: int, data: bytes) -> None:
    """All of it."""
    while data:
        data = data[os.write(fd, data) :]
