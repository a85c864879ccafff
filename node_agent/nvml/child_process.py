"""Child processes: how they ended, and pipes with deadlines on the monotonic clock."""

from __future__ import annotations

import os
import select
import time


def reap(pid: int, *, wait_s: float = 0.0) -> bool:
    """Reaps a child. True if it has ended within `wait_s`."""
    return exit_status(pid, wait_s=wait_s) is not None


def exit_status(pid: int, *, wait_s: float) -> int | None:
    """A child's wait status from os.waitpid, None if it does not end within `wait_s`.

    The child is reaped.
    """
    deadline = time.monotonic() + wait_s
    pause = 0.0005
    while True:
        reaped_pid, status = os.waitpid(pid, os.WNOHANG)
        if reaped_pid:
            return status
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


_LENGTH = 8


def write_message(fd: int, kind: bytes, body: bytes = b"") -> None:
    """Writes a message for `read_message` at the other end. kind: one byte."""
    write(fd, b"%c%*d%b" % (kind, _LENGTH, len(body), body))


def read_message(fd: int, deadline: float) -> tuple[bytes, bytes] | None:
    """Kind and body, None if the stream or the deadline ends before the message."""
    head = read(fd, 1 + _LENGTH, deadline)
    if head is None:
        return None
    body = read(fd, int(head[1:]), deadline)
    return None if body is None else (head[:1], body)


def read(fd: int, size: int, deadline: float) -> bytes | None:
    """Exactly `size` bytes, None at the end of the stream or the deadline."""
    data = b""
    while len(data) < size:
        if not readable(fd, deadline):
            return None
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def readable(fd: int, deadline: float) -> bool:
    """True if data or the end of the stream comes before the deadline."""
    remaining_s = deadline - time.monotonic()
    # select would fail for descriptors above 1023.
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(max(0.0, remaining_s) * 1000))


def write(fd: int, data: bytes) -> None:
    """Writes all data."""
    while data:
        data = data[os.write(fd, data) :]
