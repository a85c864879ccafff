"""Looks at the GPUs from a process of its own, with a deadline: a driver call that hangs cannot
hang the agent.

Two processes stand behind a `Prober`. The *lookout* is forked once, before the agent has threads
and before it loads what talks to Kubernetes; it holds `pynvml` (made small) but never the driver's
library. For each look it has a *worker*, which waits to be asked, loads the library, looks, writes
JSON into a pipe and exits. So nothing of the driver is held between looks, a driver upgraded in
place is simply loaded anew, and a worker past its deadline is killed. A worker that even SIGKILL
cannot end (stuck in the kernel) is kept an eye on: no second one is started beside it.

A worker is forked ahead, when the one before it has ended: the fork, and the pages that a forked
Python copies as soon as it moves, are two fifths of a look. Until it is asked it holds nothing of
the driver, and it ends with the lookout.
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
from node_agent.nvml.child_process import ended, read, read_to_end, write
from node_agent.nvml.observed import BROKEN, TIMED_OUT, Failure, Observation

_HEAD = 8
_QUICK, _THOROUGH = b"?", b"!"
# For the way from the worker through the lookout, on a machine under load.
_GRACE_S = 5.0
# For a worker that has answered; less than the grace, in which the next answer may have to wait for
# it.
_END_WAIT_S = 2.0
_KILL_WAIT_S = 0.5
_WHOLE = b"\n"
"""Ends an answer: what ends without it ended in the middle."""


class ForkServerEnded(Exception):
    """The lookout ended. It cannot be started again beside threads, so the agent must end and be
    started anew.
    """


@dataclass
class Prober:
    """A running lookout. Use from one thread. Close it when done; it also ends when its agent
    does.
    """

    pid: int
    _to: int
    _from: int
    deadline_s: float
    _last: tuple[bytes, Observation] | None = None
    """The newest answer as it came, and what it says: a quiet node says the same for days."""

    @classmethod
    def start(
        cls,
        *,
        deadline_s: float = 20.0,
        busy: bool = False,
        look: Callable[[], Observation] | None = None,
    ) -> Prober:
        """Forks the lookout.

        deadline_s: seconds that one look may take. busy: whether thorough looks measure
        utilization. look: what to do instead of asking NVML, for tests.
        """
        ask_read, ask_write = os.pipe()
        told_read, told_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(ask_write)
                os.close(told_read)
                ways = {_QUICK: look, _THOROUGH: look} if look else _nvml(busy)
                _keep_watch(ask_read, told_write, deadline_s, ways)
                status = 0
            finally:
                os._exit(status)
        os.close(ask_read)
        os.close(told_write)
        return cls(pid=pid, _to=ask_write, _from=told_read, deadline_s=deadline_s)

    def probe(self, *, thorough: bool = False) -> Observation:
        """One look; thorough: with health and memory in use. What went wrong is in `failure`; only
        ForkServerEnded is raised.
        """
        try:
            os.write(self._to, _THOROUGH if thorough else _QUICK)
            head = read(self._from, _HEAD, time.monotonic() + self.deadline_s + _GRACE_S)
            body = read(self._from, int(head), time.monotonic() + _GRACE_S) if head else None
        except (OSError, ValueError) as e:
            raise ForkServerEnded(f"the probe's process {self.pid} ended: {e}") from e
        if body is None:
            raise ForkServerEnded(f"the probe's process {self.pid} ended or does not answer")
        if self._last is None or self._last[0] != body:
            self._last = body, observed.parse(body.decode())
        return self._last[1]

    def close(self) -> None:
        """Ends the lookout; it notices the closed pipe."""
        os.close(self._to)
        os.close(self._from)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # ended and collected before


def _keep_watch(
    ask: int, tell: int, deadline_s: float, ways: Mapping[bytes, Callable[[], Observation]]
) -> None:
    # Ctrl-C reaches the whole foreground group; the agent decides when to end, and closing the pipe
    # tells.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Nothing here is garbage: kept out of the collector's sight, its pages stay shared with the
    # workers.
    gc.freeze()
    gc.disable()
    stuck: int | None = None
    worker: _Worker | None = _Worker.fork(ways, (ask, tell))
    while way := os.read(ask, 1):
        if stuck is not None and ended(stuck):
            stuck = None
        # Whatever ended it while it waited (the kernel, short of memory) says nothing about the
        # driver.
        if stuck is None and (worker is None or worker.ended_early()):
            worker = _Worker.fork(ways, (ask, tell))
        if worker:
            answer = worker.look(way, deadline_s)
        else:
            answer = _json(
                TIMED_OUT,
                f"an earlier look (process {stuck}) still hangs in the driver and cannot be killed",
            )
        os.write(tell, b"%*d" % (_HEAD, len(answer)))
        write(tell, answer)
        if worker:
            stuck = worker.end()
            worker = None if stuck else _Worker.fork(ways, (ask, tell), answer)
    if worker:
        worker.end()


def _nvml(busy: bool) -> Mapping[bytes, Callable[[], Observation]]:
    try:
        # Here and not at the top: only this process pays for it.
        from node_agent.nvml import probe as nvml
    except ImportError as e:
        broken = Observation(
            failure=Failure(call="probe", code=BROKEN, text=f"nvidia-ml-py is not installed: {e}")
        )
        return {_QUICK: lambda: broken, _THOROUGH: lambda: broken}
    nvml.forget_unused()
    return {_QUICK: nvml.probe, _THOROUGH: lambda: nvml.probe(thorough=True, busy=busy)}


@dataclass
class _Worker:
    """A process for one look, as the lookout sees it."""

    pid: int
    _go: int
    """Takes the byte that says which look; closed: there will be none."""
    _answer: int
    _over: bool = False

    @classmethod
    def fork(
        cls,
        ways: Mapping[bytes, Callable[[], Observation]],
        not_its_own: Sequence[int],
        last: bytes = b"",
    ) -> _Worker:
        """not_its_own: descriptors of the lookout, which must close when the lookout ends, worker
        or not. last: answer.
        """
        go_read, go_write = os.pipe()
        answer_read, answer_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for descriptor in (go_write, answer_read, *not_its_own):
                    os.close(descriptor)
                _work(go_read, answer_write, ways, last)
                status = 0
            finally:
                os._exit(status)
        os.close(go_read)
        os.close(answer_write)
        return cls(pid=pid, _go=go_write, _answer=answer_read)

    def look(self, way: bytes, deadline_s: float) -> bytes:
        """The answer, as JSON; what kept it from coming is an answer, too."""
        deadline = time.monotonic() + deadline_s
        with contextlib.suppress(
            BrokenPipeError
        ):  # it has just died: the answer ends before it begins
            os.write(self._go, way)
        answer = read_to_end(self._answer, deadline)
        if answer is None:
            os.kill(self.pid, signal.SIGKILL)
            self._over = ended(self.pid, wait_s=_KILL_WAIT_S)
            return _json(TIMED_OUT, f"no answer from the driver within {deadline_s:g} s")
        return answer if answer.endswith(_WHOLE) else self._epitaph()

    def ended_early(self) -> bool:
        """Whether it died before it was asked; then it is cleared away."""
        self._over = ended(self.pid)
        return self._over and self.end() is None

    def end(self) -> int | None:
        """None, or the pid where it cannot be ended."""
        for descriptor in (self._go, self._answer):
            os.close(descriptor)
        if not self._over and not ended(self.pid, wait_s=_END_WAIT_S):
            os.kill(self.pid, signal.SIGKILL)
            self._over = ended(self.pid, wait_s=_KILL_WAIT_S)
            return None if self._over else self.pid
        return None

    def _epitaph(self) -> bytes:
        _, status = os.waitpid(self.pid, 0)
        self._over = True
        why = (
            f"signal {os.WTERMSIG(status)}"
            if os.WIFSIGNALED(status)
            else f"exit status {os.waitstatus_to_exitcode(status)}"
        )
        return _json(BROKEN, f"the look ended with {why}")


def _work(
    go: int, answer: int, ways: Mapping[bytes, Callable[[], Observation]], last: bytes
) -> None:
    """The worker's life."""
    # To read and write the last answer once more copies the pages that the next one needs, while
    # nobody waits.
    with contextlib.suppress(Exception):
        observed.dump(observed.parse(last.decode()))
    way = os.read(go, 1)
    if not way:
        return
    try:
        text = observed.dump(ways[way]()).encode()
    except Exception as e:  # noqa: BLE001 - whatever it was must reach the agent as words
        text = _json(BROKEN, f"{type(e).__name__}: {e}")
    write(answer, text + _WHOLE)
    # The answer ends here and not with the process, whose end takes as long as its memory is large.
    os.close(answer)


def _json(code: int, text: str) -> bytes:
    return observed.dump(Observation(failure=Failure(call="probe", code=code, text=text))).encode()
