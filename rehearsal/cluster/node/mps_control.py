"""`nvidia-cuda-mps-control` on a simulated node, which needs CUDA: a daemon, and its command line.

The daemon keeps the limits that it is given and answers for them; it starts no MPS server, because
nothing here is a client. `nvidia-cuda-mps-control -d` starts it, without arguments the program
sends it the commands of its stdin. Names of files and variables, messages, and commands are those
of nvidia-cuda-mps-control(1). Run as a file: callers give it no environment but the directories.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PIPES, _LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
_DEFAULT_PIPES = "/tmp/nvidia-mps"  # noqa: S108 - the real one's default
_DEFAULT_LOGS = "/var/log/nvidia-mps"
_FAILED, _BAD_ARGUMENT = 1, 2
_REFUSED = b"\1"
"""Begins the answer to a command that failed."""


@dataclass
class Limits:
    """What the daemon gives to each client that names no limits of its own."""

    thread_percentage: float = 100.0
    pinned_memory: dict[str, str] = field(default_factory=dict)
    """By index of the GPU."""

    def answer(self, command: str) -> str:
        """What the daemon prints. Raises ValueError for a command that it does not know."""
        match command.split():
            case ["set_default_active_thread_percentage", percentage]:
                self.thread_percentage = float(percentage)
                return f"{self.thread_percentage}\n"
            case ["get_default_active_thread_percentage"]:
                return f"{self.thread_percentage}\n"
            case ["set_default_device_pinned_mem_limit", gpu, limit]:
                self.pinned_memory[gpu] = limit
                return ""
            case ["get_default_device_pinned_mem_limit", gpu]:
                return f"{self.pinned_memory.get(gpu, '')}\n"
            case ["get_server_list"] | ["quit"] | []:
                return ""
            case _:
                raise ValueError(f"simulated: nvidia-cuda-mps-control does not know: {command}")


def main(arguments: Sequence[str]) -> int:
    pipes = Path(os.environ.get(_PIPES, _DEFAULT_PIPES))
    if list(arguments) == ["-d"]:
        return _start(pipes, Path(os.environ.get(_LOGS, _DEFAULT_LOGS)))
    if arguments:
        print(f"simulated: nvidia-cuda-mps-control: only -d is, not {arguments}", file=sys.stderr)
        return _BAD_ARGUMENT
    return _send(pipes, sys.stdin.read())


def _send(pipes: Path, commands: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(pipes / "control"))
        except OSError:
            print("Cannot find MPS control daemon process", file=sys.stderr)
            return _FAILED
        connection.sendall(commands.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = _received(connection)
    refused = answer.startswith(_REFUSED)
    text = answer.removeprefix(_REFUSED).decode()
    print(text, end="", file=sys.stderr if refused else sys.stdout)
    return _FAILED if refused else 0


@dataclass(frozen=True)
class _PipeDirectory:
    """The pipe directory of one daemon, which has it alone."""

    control: Path
    listening: socket.socket
    lock: int

    @classmethod
    def take(cls, pipes: Path) -> _PipeDirectory | None:
        """None while another daemon has it."""
        lock = os.open(pipes / "control_lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        control = pipes / "control"
        control.unlink(missing_ok=True)  # of a daemon that was killed
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(control))
        listening.listen()
        return cls(control, listening, lock)

    def leave(self) -> None:
        self.control.unlink(missing_ok=True)
        self.listening.close()
        os.close(self.lock)


def _start(pipes: Path, logs: Path) -> int:
    """Returns when the daemon, in the background, can be asked."""
    taken = _PipeDirectory.take(pipes)
    if taken is None:
        print("An instance of this daemon is already running", file=sys.stderr)
        return _FAILED
    log = os.open(logs / "control.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    # Not in a session of its own: the container's other processes end with its first one.
    if os.fork() != 0:
        return 0
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor, to in ((0, null), (1, log), (2, log)):
        os.dup2(to, descriptor)
    _log(f"Starting control daemon using socket {taken.control} (simulated)")
    with contextlib.suppress(ProcessLookupError):  # the first process has ended already
        _serve(taken)
    _log("Exit")
    return 0


def _serve(pipes: _PipeDirectory) -> None:
    """Until `quit`, or until the container's first process has ended without sending it."""
    limits = Limits()
    first = os.pidfd_open(os.getpgrp())
    while True:
        ready, _, _ = select.select((pipes.listening.fileno(), first), (), ())
        if first in ready:
            pipes.leave()
            return
        connection, _ = pipes.listening.accept()
        with connection, contextlib.suppress(ConnectionError):
            commands = _received(connection).decode().splitlines()
            answer = _answer(limits, commands)
            if "quit" in commands:
                # Before the answer, so that whoever has it can start another one.
                pipes.leave()
            connection.sendall(answer)
            if "quit" in commands:
                return


def _answer(limits: Limits, commands: Sequence[str]) -> bytes:
    for command in commands:
        _log(f"Received command: {command}")
    try:
        return "".join(limits.answer(command) for command in commands).encode()
    except ValueError as e:
        return _REFUSED + f"{e}\n".encode()


def _received(connection: socket.socket) -> bytes:
    """Everything up to its end."""
    parts = []
    while part := connection.recv(4096):
        parts.append(part)
    return b"".join(parts)


def _log(text: str) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"[{now} Control {os.getpid()}] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
