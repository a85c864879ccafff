"""The fork server: forks the workers that call the driver, and ends hanging workers.

It has the code of NVML calls but never the driver's library, has one thread, and is small, so a
fork is cheap and its child safe to run in. A worker is forked before its first request, answers
several (`worker`), and is killed after its deadline. If even SIGKILL cannot end a worker (stuck in
the kernel), no second worker is started.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from slicewright.node_agent.nvml.child_process import (
    exit_status,
    read,
    read_message,
    reap,
    write_message,
)
from slicewright.node_agent.nvml.observed import BROKEN, TIMED_OUT
from slicewright.node_agent.nvml.worker import FAILED, READY, Probes, failure, work

# For a worker that has answered. It is shorter than the grace that the agent adds to the deadline,
# which the next request may spend on it.
_END_WAIT_S = 2.0
_KILL_WAIT_S = 0.5

_Answer = tuple[bytes, bytes]
"""Kind and body, the result of `read_message`."""


def run(request: int, answer: int, deadline_s: float, probes: Probes) -> None:
    """Answers requests until the agent closes the pipe. deadline_s: time limit of an answer."""
    # Ctrl-C reaches the whole foreground process group, but the agent decides when the server ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # There is no garbage here. A collection would only write to pages shared with the workers.
    gc.freeze()
    gc.disable()
    workers = _Workers(probes, close=(request, answer))
    workers.fork_ahead()
    while kind := os.read(request, 1):
        write_message(answer, *workers.answer(kind, time.monotonic() + deadline_s, deadline_s))
        workers.fork_ahead()
    workers.end()


class _Workers:
    """Manages at most one worker at a time."""

    def __init__(self, probes: Probes, close: Sequence[int]) -> None:
        """close: descriptors of the fork server, which must not stay open in a worker."""
        self._probes = probes
        self._close = close
        self._worker: _Worker | None = None
        self._stuck: int | None = None
        """The worker that cannot be killed."""

    def fork_ahead(self) -> None:
        """Ensures that a worker waits for requests, unless a worker is stuck."""
        if self._worker and not self._worker.is_ready():
            self.end()
        if self._stuck is not None and reap(self._stuck):
            self._stuck = None
        if self._worker is None and self._stuck is None:
            self._worker = _Worker.fork(self._probes, self._close)

    def answer(self, kind: bytes, deadline: float, deadline_s: float) -> _Answer:
        """Does a look. deadline: on the monotonic clock. deadline_s: the limit for messages."""
        # A worker that died while it waited (out of memory, for example) is no sign of a driver
        # problem: another worker replaces it.
        self.fork_ahead()
        reused = self._worker is not None and self._worker.answers > 0
        result = self._ask(kind, deadline, deadline_s)
        if result[0] == FAILED and reused and time.monotonic() < deadline:
            # A failure is reported only if a new process confirms it.
            self.end()
            self.fork_ahead()
            result = self._ask(kind, deadline, deadline_s)
        return result

    def end(self) -> None:
        if self._worker:
            self._stuck = self._worker.end()
            self._worker = None

    def _ask(self, kind: bytes, deadline: float, deadline_s: float) -> _Answer:
        if self._worker:
            return self._worker.look(kind, deadline, deadline_s)
        text = f"an earlier probe (process {self._stuck}) still hangs in the driver and cannot be"
        return FAILED, failure(TIMED_OUT, f"{text} killed")


@dataclass
class _Worker:
    """The fork server's view of a worker."""

    pid: int
    _request: int
    """The pipe for requests of one byte each. The worker ends when it is closed."""
    _answer: int
    answers: int = 0
    """Number of requested answers."""
    _ready: bool = True
    """True if the worker has announced that it waits for a request."""
    _killed: bool = False
    _reaped: bool = False

    @classmethod
    def fork(cls, probes: Probes, close: Sequence[int]) -> _Worker:
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for descriptor in (request_write, answer_read, *close):
                    os.close(descriptor)
                work(request_read, answer_write, probes)
                status = 0
            finally:
                os._exit(status)
        os.close(request_read)
        os.close(answer_write)
        return cls(pid=pid, _request=request_write, _answer=answer_read)

    def is_ready(self) -> bool:
        """True if it waits for a request. Blocks while it works after an answer."""
        if self._killed or self._reaped:
            return False
        if not self._ready:
            self._ready = read(self._answer, 1, time.monotonic() + _END_WAIT_S) == READY
        self._reaped = reap(self.pid)
        return self._ready and not self._reaped

    def look(self, kind: bytes, deadline: float, deadline_s: float) -> _Answer:
        """Its answer, or a failure without an answer."""
        self.answers += 1
        self._ready = False
        # A worker that has just died does not answer.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._request, kind)
        if answer := read_message(self._answer, deadline):
            return answer
        if time.monotonic() >= deadline:
            self._kill()
            return FAILED, failure(TIMED_OUT, f"no answer from the driver within {deadline_s:g} s")
        return FAILED, self._exit_failure()

    def end(self) -> int | None:
        """Ends the worker. Returns its pid if even SIGKILL cannot."""
        for descriptor in (self._request, self._answer):
            os.close(descriptor)
        self._reaped = self._reaped or reap(self.pid, wait_s=0.0 if self._killed else _END_WAIT_S)
        if not self._reaped and not self._killed:
            self._kill()
        return None if self._reaped else self.pid

    def _kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._killed = True
        self._reaped = reap(self.pid, wait_s=_KILL_WAIT_S)

    def _exit_failure(self) -> bytes:
        status = exit_status(self.pid, wait_s=_END_WAIT_S)
        self._reaped = status is not None
        if status is None:
            how = "its answer cut short, and does not exit"
        elif os.WIFSIGNALED(status):
            how = f"signal {os.WTERMSIG(status)}"
        else:
            how = f"exit status {os.waitstatus_to_exitcode(status)}"
        return failure(BROKEN, f"the probe's process ended with {how}")
