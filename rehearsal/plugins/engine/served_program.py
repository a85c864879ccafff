"""A Pulumi program in a process that `program_server.py` forks, for the language host.

Only where SLICEWRIGHT_REHEARSAL_PROGRAM_SERVER names a server, as in the project's own tests.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "SLICEWRIGHT_REHEARSAL_PROGRAM_SERVER"
_SERVER = Path(__file__).with_name("program_server.py")
_KILLED = -signal.SIGKILL


class ServedProgram:
    """What the language host uses of subprocess.Popen."""

    stdout = None
    stderr = None

    def __init__(self, connection: socket.socket, argv: Sequence[str]) -> None:
        self._connection = connection
        self._argv = argv
        # As of one that was killed, where the server itself is.
        self._status = _KILLED
        self._ended = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def poll(self) -> int | None:
        return self._status if self._ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(list(self._argv), timeout or 0.0)
        return self._status

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            self._connection.sendall(bytes([number]))
        except OSError:
            pass  # it has ended

    def _follow(self) -> None:
        try:
            with self._connection, self._connection.makefile() as answers:
                line = answers.readline()
                if line:
                    self._status = json.loads(line)["status"]
        except OSError:
            pass
        finally:
            self._ended.set()


def start(
    argv: Sequence[str], variables: Mapping[str, str], directory: Path
) -> ServedProgram | None:
    """Runs `python -u PROGRAM ARGUMENTS...`; None where it needs a process of its own.

    Its output and errors go where this process's go, and nothing can be read from its input.
    """
    python, flag, *program = argv
    where = variables.get(VARIABLE)
    if not where or flag != "-u":
        return None
    request = {
        "python": python,
        "argv": program,
        "variables": {k: v for k, v in variables.items() if k != VARIABLE},
        "directory": str(directory),
    }
    body = json.dumps(request).encode()
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(where)
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), 1, 2]
            socket.send_fds(connection, [len(body).to_bytes(8, "big")], streams)
            connection.sendall(body)
        refused = json.loads(_line(connection))["refused"]
    except (OSError, ValueError):
        refused = "the server has ended"
    if refused:
        connection.close()
        return None
    return ServedProgram(connection, argv)


@contextmanager
def server(where: Path) -> Iterator[None]:
    """Serves this process's Python at the socket `where`."""
    process = subprocess.Popen(
        [sys.executable, "-u", str(_SERVER), str(where)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _line(connection: socket.socket) -> bytes:
    """The first line; no byte of the next one."""
    read = bytearray()
    while not read.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            break
        read += byte
    return bytes(read)
