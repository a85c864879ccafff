"""A named pipe of a simulated node, by which its programs ask something of the kubelet stand-in."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path


class RequestPipe:
    """Calls `requested`, in the event loop, with the words of a line written to the pipe.

    Of several lines that were written before it was read, only the first counts.
    """

    def __init__(self, path: Path, requested: Callable[[Sequence[str]], None]) -> None:
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # Open for writing too, so that a writer that closes the pipe does not end it.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._requested = requested
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            lines = os.read(self._fd, 4096).decode(errors="replace").splitlines()
            self._requested(lines[0].split() if lines else ())
