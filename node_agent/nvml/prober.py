"""Probes the GPUs from a process of its own, with a deadline: a hung driver cannot hang the agent.

Two processes stand behind a `Prober`. The *fork server* is forked once, before the agent has
threads and before it loads the API client; it holds `pynvml` (stripped) but never the driver's
library. For each probe it forks a *worker*, which waits for a request, loads the library, probes,
writes JSON into a pipe and exits. So nothing of the driver is held between probes, a driver
upgraded in place is simply loaded again, and a worker past its deadline is killed. A worker that
even SIGKILL cannot end (stuck in the kernel) is remembered: no second one is started beside it.

The worker is forked ahead, as soon as the one before it has ended: the fork, and the pages that a
forked Python copies at once, are two fifths of a probe. Until its request it holds nothing of the
driver, and it ends with the fork server.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from node_agent.nvml import observed
from node_agent.nvml.child_process import read, read_to_end, reap, write
from node_agent.nvml.observed import BROKEN, TIMED_OUT, Failure, Observation

_Probes = Mapping[bytes, Callable[[], Observation]]
"""Request -> what to do."""
_HEAD = 8
_QUICK, _THOROUGH = b"?", b"!"
# Added to the deadline: for the answer's way through the fork server, on a machine under load.
_GRACE_S = 5.0
# For a worker that has answered; shorter than the grace, which the next request may spend on it.
_END_WAIT_S = 2.0
_KILL_WAIT_S = 0.5
_END_MARK = b"\n"
"""Ends an answer; without it, the answer is cut short."""


class ForkServerEnded(Exception):
    """The fork server ended. It cannot be forked beside threads: the agent must be restarted."""


@dataclass
class Prober:
    """A running fork server. Use from one thread, and close; it also ends with its agent."""

    pid: int
    _to: int
    _from: int
    deadline_s: float
    _last: tuple[bytes, Observation] | None = None
    """The last answer, as bytes and parsed: a quiet node gives the same one for days."""

    @classmethod
    def start(
        cls,
        *,
        deadline_s: float = 20.0,
        utilization: bool = False,
        probe: Callable[[], Observation] | None = None,
    ) -> Prober:
        """Forks the fork server.

        deadline_s: seconds that one probe may take. utilization: whether thorough probes measure
        it. probe: what to do instead of calling NVML, for tests.
        """
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(request_write)
                os.close(answer_read)
                probes = {_QUICK: probe, _THOROUGH: probe} if probe else _nvml(utilization)
                _run_fork_server(request_read, answer_write, deadline_s, probes)
                status = 0
            finally:
                os._exit(status)
        os.close(request_read)
        os.close(answer_write)
        return cls(pid=pid, _to=request_write, _from=answer_read, deadline_s=deadline_s)

    def probe(self, *, thorough: bool = False) -> Observation:
        """One probe; thorough: with health and memory in use. Raises ForkServerEnded only: what
        went wrong otherwise is in `failure`.
        """
        try:
            os.write(self._to, _THOROUGH if thorough else _QUICK)
            head = read(self._from, _HEAD, time.monotonic() + self.deadline_s + _GRACE_S)
            body = read(self._from, int(head), time.monotonic() + _GRACE_S) if head else None
        except (OSError, ValueError) as e:
            raise ForkServerEnded(f"the fork server (process {self.pid}) ended: {e}") from e
        if body is None:
            raise ForkServerEnded(f"the fork server (process {self.pid}) ended or does not answer")
        if self._last is None or self._last[0] != body:
            self._last = body, observed.parse(body.decode())
        return self._last[1]

    def close(self) -> None:
        """Ends the fork server, by closing its pipe."""
        os.close(self._to)
        os.close(self._from)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # already reaped


def _run_fork_server(request: int, answer: int, deadline_s: float, probes: _Probes) -> None:
    """Answers requests until the agent closes the pipe."""
    # Ctrl-C reaches the whole foreground process group, but the agent decides when this ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Nothing here is garbage; a collection would only write to pages shared with the workers.
    gc.freeze()
    gc.disable()
    stuck: int | None = None
    worker: _Worker | None = _Worker.fork(probes, (request, answer))
    while kind := os.read(request, 1):
        if stuck is not None and reap(stuck):
            stuck = None
        # A worker that died while it waited (out of memory, for example) says nothing about the
        # driver: another one takes its place.
        if stuck is None and (worker is None or worker.ended_early()):
            worker = _Worker.fork(probes, (request, answer))
        if worker:
            text = worker.probe(kind, deadline_s)
        else:
            text = _failure(
                TIMED_OUT,
                f"an earlier probe (process {stuck}) still hangs in the driver and cannot be "
                "killed",
            )
        os.write(answer, b"%*d" % (_HEAD, len(text)))
        write(answer, text)
        if worker:
            stuck = worker.end()
            worker = None if stuck else _Worker.fork(probes, (request, answer), text)
    if worker:
        worker.end()


def _nvml(utilization: bool) -> _Probes:
    try:
        # Not at the top: only the fork server should carry pynvml.
        from node_agent.nvml import probe as nvml
    except ImportError as e:
        broken = Observation(
            failure=Failure(call="probe", code=BROKEN, text=f"nvidia-ml-py is not installed: {e}")
        )
        return {_QUICK: lambda: broken, _THOROUGH: lambda: broken}
    nvml.strip_pynvml()
    return {
        _QUICK: nvml.probe,
        _THOROUGH: lambda: nvml.probe(thorough=True, with_utilization=utilization),
    }


@dataclass
class _Worker:
    """A process for one probe, as the fork server sees it."""

    pid: int
    _request: int
    """Takes the request, one byte; closed without one, the worker ends."""
    _answer: int
    _reaped: bool = False

    @classmethod
    def fork(
        cls,
        probes: _Probes,
        close: Sequence[int],
        last_answer: bytes = b"",
    ) -> _Worker:
        """close: the fork server's descriptors, which must not stay open in a worker."""
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for descriptor in (request_write, answer_read, *close):
                    os.close(descriptor)
                _work(request_read, answer_write, probes, last_answer)
                status = 0
            finally:
                os._exit(status)
        os.close(request_read)
        os.close(answer_write)
        return cls(pid=pid, _request=request_write, _answer=answer_read)

    def probe(self, kind: bytes, deadline_s: float) -> bytes:
        """The observation as JSON; one with a `failure` where the worker gave none."""
        deadline = time.monotonic() + deadline_s
        # A worker that has just died gives an empty answer.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._request, kind)
        answer = read_to_end(self._answer, deadline)
        if answer is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reaped = reap(self.pid, wait_s=_KILL_WAIT_S)
            return _failure(TIMED_OUT, f"no answer from the driver within {deadline_s:g} s")
        return answer if answer.endswith(_END_MARK) else self._exit_failure()

    def ended_early(self) -> bool:
        """Whether it died before its request; then it is reaped."""
        self._reaped = reap(self.pid)
        return self._reaped and self.end() is None

    def end(self) -> int | None:
        """Ends it. Returns its pid where even SIGKILL cannot."""
        for descriptor in (self._request, self._answer):
            os.close(descriptor)
        if not self._reaped and not reap(self.pid, wait_s=_END_WAIT_S):
            os.kill(self.pid, signal.SIGKILL)
            self._reaped = reap(self.pid, wait_s=_KILL_WAIT_S)
            return None if self._reaped else self.pid
        return None

    def _exit_failure(self) -> bytes:
        _, status = os.waitpid(self.pid, 0)
        self._reaped = True
        why = (
            f"signal {os.WTERMSIG(status)}"
            if os.WIFSIGNALED(status)
            else f"exit status {os.waitstatus_to_exitcode(status)}"
        )
        return _failure(BROKEN, f"the probe's process ended with {why}")


def _work(request: int, answer: int, probes: _Probes, last_answer: bytes) -> None:
    """Waits for one request and answers it."""
    # Parsing and dumping the last answer copies, while nobody waits, the pages that the next one
    # will need.
    with contextlib.suppress(Exception):
        observed.dump(observed.parse(last_answer.decode()))
    kind = os.read(request, 1)
    if not kind:
        return
    try:
        text = observed.dump(probes[kind]()).encode()
    except Exception as e:  # noqa: BLE001 - whatever it was must reach the agent as a failure
        text = _failure(BROKEN, f"{type(e).__name__}: {e}")
    write(answer, text + _END_MARK)
    # Closed now, because a process with much memory takes a while to exit.
    os.close(answer)


def _failure(code: int, text: str) -> bytes:
    return observed.dump(Observation(failure=Failure(call="probe", code=code, text=text))).encode()
