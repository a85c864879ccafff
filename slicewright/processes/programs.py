"""Runs a program in a session of its own: limited in time and output, and never left running."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slicewright.processes import sessions, signals
from slicewright.processes.waits import NOTICE_S, duration, tell

_TICK_S: Final = 0.2
_CHUNK: Final = 65536
_STDERR: Final = 65536
"""The number of last bytes of stderr that are kept."""
_SAVING_S: Final = 600.0
"""A program may still save its state for that long after its time limit."""
_LINGER_S: Final = 2.0
"""Descendants that hold the output open are waited for that long."""


class ProgramFailed(Exception):
    """The program could not be started, or was ended. The message names it and the reason."""


class NotInstalled(ProgramFailed):
    """There is no such program."""


@dataclass(frozen=True, kw_only=True)
class Program:
    argv: Sequence[str]
    name: str
    """The name in messages, such as `pulumi stack export`."""
    limit_s: float
    """The time limit. The program is then asked to stop, and killed after `grace_s`."""
    environment: Mapping[str, str] | None = None
    """None: this process's."""
    standard_input: bytes = b""
    largest_output: int = 256 * 2**20
    """The limit of its stdout in bytes."""
    grace_s: float | None = 10.0
    """The time between the request to stop and the kill. None: it may take as long as it needs, for
    example to save a state; a second signal kills it.
    """
    merged: bool = False
    """True if its stderr becomes part of its stdout."""
    shows_stderr: bool = True
    """False if its stderr may hold credentials, so that messages do not quote it."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    stdout: bytes
    stderr: bytes
    """The last part of its stderr."""
    signal: int | None
    """The signal that asked this process to stop meanwhile, which was passed on."""

    @property
    def complaint(self) -> str:
        """Its stderr in one line, else its exit code."""
        text = " ".join(self.stderr.decode(errors="replace").split())
        return text or f"exit code {self.code}"


def run(program: Program) -> Ended:
    """Runs the program to its end. Raises ProgramFailed and signals.Interrupted."""
    ended = follow(program)
    if ended.signal is not None:
        raise signals.Interrupted(ended.signal)
    return ended


def follow(
    program: Program,
    receive: Callable[[bytes], None] | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Ended:
    """Runs the program to its end, also after a signal. Raises ProgramFailed.

    receive: gets each part of the output, which is then neither kept nor announced. idle: called
    several times a second without output.
    """
    running = _Running(program, receive, idle)
    with signals.handled(running.interrupt):
        running.start()
        try:
            running.watch()
        except BaseException:
            running.give_up()
            raise
        finally:
            running.end()
    if running.failure:
        raise ProgramFailed(running.failure)
    return running.ended


@dataclass
class _Running:
    program: Program
    receive: Callable[[bytes], None] | None
    idle: Callable[[], None]
    signal: int | None = None
    failure: str = ""
    _process: subprocess.Popen[bytes] | None = None
    _began: float = field(default_factory=time.monotonic)
    _killed_at: float = float("inf")
    """The time at which it is killed, once it has been asked to stop."""
    _stdout: bytearray = field(default_factory=bytearray)
    _stderr: bytearray = field(default_factory=bytearray)
    _received: int = 0
    _announced: bool = False

    def start(self) -> None:
        """Raises ProgramFailed."""
        program = self.program
        try:
            self._process = subprocess.Popen(
                program.argv,
                env=program.environment,
                stdin=subprocess.PIPE if program.standard_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if program.merged else subprocess.PIPE,
                # Only this process passes signals on, so that it can wait for the end.
                start_new_session=True,
            )
        except FileNotFoundError as e:
            raise NotInstalled(
                f"cannot start {program.argv[0]} ({e.strerror}); install it, or fix PATH"
            ) from None
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) else e
            raise ProgramFailed(f"cannot start {program.argv[0]} ({reason})") from None
        if self.signal is not None:
            sessions.pass_on(self._process.pid, self.signal)

    def interrupt(self, number: int) -> None:
        """Passes the first signal on, and kills the program at the second. It may be called between
        any two instructions of the main thread.
        """
        if self.signal is not None:
            self._killed_at = 0.0
            if self._process is not None:
                sessions.kill(self._process.pid)
            return
        self.signal = number
        self._ask_to_stop(number)
        if self.program.grace_s is None:
            tell(f"{self.program.name} is asked to stop; a second Ctrl-C kills it")

    def _ask_to_stop(self, number: int) -> None:
        if self.program.grace_s is not None:
            self._killed_at = time.monotonic() + self.program.grace_s
        if self._process is not None:
            # Pulumi and most other programs stop cleanly at SIGTERM, but not at SIGHUP.
            sessions.pass_on(
                self._process.pid, signal.SIGTERM if number == signal.SIGHUP else number
            )

    def watch(self) -> None:
        """Reads the output until the program ends, is killed, or breaks a limit."""
        assert self._process is not None
        with selectors.DefaultSelector() as selector:
            _register(selector, self._process)
            unsent = memoryview(self.program.standard_input)
            ended_at = float("inf")
            while True:
                ready = selector.select(_TICK_S)
                for key, _ in ready:
                    if key.fileobj is self._process.stdin:
                        unsent = _send(selector, key, unsent)
                    else:
                        self._read(selector, key)
                if not ready:
                    self.idle()
                now = time.monotonic()
                if self._process.poll() is not None:
                    ended_at = min(ended_at, now)
                    if now > ended_at + _LINGER_S or not _open_outputs(selector, self._process):
                        return
                elif now > self._killed_at or self._breaks_a_limit(now):
                    return
                self._announce(now)

    def give_up(self) -> None:
        """Asks the program to stop, and drops its further output."""
        self.receive, self.idle = (lambda _: None), (lambda: None)
        self._ask_to_stop(signal.SIGINT)
        self.watch()

    def _read(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        assert self._process is not None
        chunk = os.read(key.fd, _CHUNK)
        if not chunk:
            selector.unregister(key.fileobj)
        elif key.fileobj is self._process.stderr:
            self._stderr += chunk
            del self._stderr[:-_STDERR]
        else:
            self._received += len(chunk)
            if self.receive is None:
                self._stdout += chunk
            else:
                self.receive(chunk)

    def _breaks_a_limit(self, now: float) -> bool:
        """Returns True if the program must be killed. Asks it to stop first if time is up."""
        if self._received > self.program.largest_output:
            size = self.program.largest_output // 2**20
            self.failure = f"{self.program.name} printed more than {size} MiB, and was ended"
            return True
        if now > self._began + self.program.limit_s and not self.failure:
            limit = duration(self.program.limit_s)
            self.failure = f"{self.program.name} did not end within {limit}, and was ended"
            complaint = " ".join(self._stderr.decode(errors="replace").split())
            if complaint and self.program.shows_stderr:
                self.failure += f"; it printed: {complaint}"
            self._ask_to_stop(signal.SIGINT)
            self._killed_at = min(self._killed_at, now + _SAVING_S)
        return False

    def _announce(self, now: float) -> None:
        if self._announced or now < self._began + NOTICE_S:
            return
        self._announced = True
        if self.receive is None or not self._received:
            tell(f"waiting for {self.program.name}, for up to {duration(self.program.limit_s)}")

    def end(self) -> None:
        """Kills the remaining processes of the program, and closes its pipes."""
        assert self._process is not None
        sessions.kill(self._process.pid)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    @property
    def ended(self) -> Ended:
        assert self._process is not None
        return Ended(
            code=self._process.returncode,
            stdout=bytes(self._stdout),
            stderr=bytes(self._stderr),
            signal=self.signal,
        )


def _register(selector: selectors.BaseSelector, process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            selector.register(pipe, selectors.EVENT_READ)
    if process.stdin is not None and not process.stdin.closed:
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)


def _send(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, unsent: memoryview
) -> memoryview:
    """Sends a part of the input, and returns the rest. Closes the pipe after the last part."""
    try:
        rest = unsent[os.write(key.fd, unsent[:_CHUNK]) :]
    except BrokenPipeError:
        rest = unsent[:0]  # it has ended, or does not read its input
    if not rest:
        selector.unregister(key.fileobj)
        os.set_blocking(key.fd, True)
        assert not isinstance(key.fileobj, int)
        key.fileobj.close()  # type: ignore[attr-defined]
    return rest


def _open_outputs(selector: selectors.BaseSelector, process: subprocess.Popen[bytes]) -> bool:
    return any(key.fileobj is not process.stdin for key in selector.get_map().values())
