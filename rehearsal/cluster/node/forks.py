"""Programs of simulated nodes as forks of a few processes (`fork_server.py`), for large fleets."""

from __future__ import annotations

import itertools
import json
import logging
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.cluster.node.launcher import LaunchSpec

_SERVER = Path(__file__).with_name("fork_server.py")
_MOST_BYTES = 1 << 20
_SESSIONS = 4
"""Of one server: its forks get together the processor time of so many programs."""
_READ_AT_START = ("LC_", "LANG")
"""Beginnings of the variables that Python obeys with -I; where one is set, a fork could differ."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PythonCode:
    """A program `PYTHON -I … -c CODE ARCHIVE HASH …`, as the pods of agent and controller have it.

    CODE checks that the archive has this hash, and runs what it has checked; so two programs with
    equal values here run the same code.
    """

    python: tuple[str, ...]
    code: str
    digest: str

    @classmethod
    def of(cls, spec: LaunchSpec) -> PythonCode | None:
        """None where it is something else, or a fork of a loaded one could differ from it."""
        argv = spec.argv
        if "-c" not in argv or any(name.startswith(_READ_AT_START) for name in spec.env):
            return None
        at = argv.index("-c")
        if len(argv) < at + 4 or "-I" not in argv[:at] or spec.uid == 0:
            return None
        return cls(python=argv[:at], code=argv[at + 1], digest=argv[at + 3])


class ForkedProgram:
    """What the kubelet stand-in uses of subprocess.Popen, of a process that a server has forked."""

    def __init__(self, line: _Line, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._line = line
        # It keeps its pid until `wait` has its status.
        self._ended = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code if it has ended; negative for a signal."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        with self._lock:
            if self.returncode is None:
                waiting = select.poll()
                waiting.register(self._ended, select.POLLIN)
                if not waiting.poll(None if timeout is None else timeout * 1000):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
                self.returncode = self._line.reap(self.pid)
                os.close(self._ended)
            return self.returncode

    def send_signal(self, number: int) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self.returncode is None:
                signal.pidfd_send_signal(self._ended, number)


class Forks:
    """Starts programs; for several threads. Servers end with this process, and their forks too."""

    def __init__(self, marks: Mapping[str, str]) -> None:
        """marks: variables by which leftover processes are found."""
        self._marks = dict(marks)
        self._servers: dict[PythonCode | None, _Server | None] = {}
        """None: such a program is not loaded ahead."""
        self._lock = threading.Lock()

    def start(self, spec: LaunchSpec) -> ForkedProgram:
        """As launcher.start. Raises OSError."""
        code = PythonCode.of(spec)
        with self._lock:
            server = self._server_of(code, spec) if code else None
            server = server or self._server_of(None, spec)
            assert server is not None
            return server.fork(spec)

    def _server_of(self, code: PythonCode | None, spec: LaunchSpec) -> _Server | None:
        known = self._servers.get(code)
        if code in self._servers and (known is None or known.lives):
            return known
        try:
            to_load = _to_load(spec) if code else None
            # Only its start is there, for which others wait.
            made: _Server | None = launcher.in_lasting_thread(lambda: _Server(self._marks, code))
            assert made is not None
            made.load(to_load)
        except _NotLoadedError as e:
            _log.warning(
                "a program of Python code is not loaded ahead, and starts by itself: %s", e
            )
            made = None
        self._servers[code] = made
        return made


class _NotLoadedError(Exception):
    """The program that a server was to load cannot be loaded."""


class _Line:
    """A connection to one of a server's processes, each of which has a session of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._asking = threading.Lock()

    def ask(self, request: object) -> Any:
        """Raises OSError where the process has ended."""
        with self._asking:
            self._connection.sendall(json.dumps(request).encode())
            if answer := self._connection.recv(_MOST_BYTES):
                return json.loads(answer)
        raise ConnectionError("the process that forks programs of nodes has ended; see its log")

    def fork(self, spec: LaunchSpec) -> int:
        """The pid. Raises OSError."""
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        if spec.processes is not None:
            spec.processes.mkdir(exist_ok=True)
        answer = self.ask({"spec": launcher.described(spec), "log": str(spec.log.absolute())})
        if "errno" in answer:
            raise OSError(answer["errno"], answer["why"])
        return int(answer["pid"])

    def reap(self, pid: int) -> int:
        """Exit code of a fork that has ended; that of a killed one where its parent has gone, as
        it is then killed.
        """
        try:
            return int(self.ask({"reap": pid})["status"])
        except OSError:
            return -signal.SIGKILL


class _Server:
    def __init__(self, marks: Mapping[str, str], code: PythonCode | None) -> None:
        """code: what it will have to load. Raises OSError."""
        python = code.python if code else launcher.INTERPRETER
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(_SESSIONS)]
        numbers = [theirs.fileno() for _, theirs in pairs]
        try:
            self._process = subprocess.Popen(
                [*python, str(_SERVER), str(os.getpid()), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=numbers,
                env=dict(marks),
                cwd="/",
                start_new_session=True,
            )
        finally:
            for _, theirs in pairs:
                theirs.close()
        self._lines = [_Line(ours) for ours, _ in pairs]
        self._turns = itertools.cycle(self._lines)

    def load(self, program: Mapping[str, object] | None) -> None:
        """To be called once. Raises OSError, _NotLoadedError."""
        if why_not := self._lines[0].ask(program)["why_not"]:
            self._process.wait()
            raise _NotLoadedError(why_not)
        what = program["archive"] if program else "any program"
        _log.info("process %d forks %s for nodes", self._process.pid, what)

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def fork(self, spec: LaunchSpec) -> ForkedProgram:
        """Raises OSError."""
        line = next(self._turns)
        return ForkedProgram(line, line.fork(spec))


def _to_load(spec: LaunchSpec) -> dict[str, object]:
    """Its command line and archive, as this machine has them."""
    argv = spec.argv
    at = argv.index("-c")
    inside = Path(argv[at + 2])
    for bind in reversed(spec.binds):
        if inside.is_relative_to(bind.target):
            archive = bind.source / inside.relative_to(bind.target)
            return {"code": argv[at + 1], "archive": str(archive), "digest": argv[at + 3]}
    raise _NotLoadedError(f"no volume has {inside}")
