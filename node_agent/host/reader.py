"""Reads the MIG state in a child process, so that a hung driver call blocks neither `apply` nor
Ctrl-C.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from slicewright.node_agent.host import partition
from slicewright.node_agent.host.mig_state import Gpu
from slicewright.node_agent.host.transaction import NvmlCallFailed, StopRequested
from slicewright.node_agent.nvml.child_process import readable, reap, write
from slicewright.node_agent.nvml.observed import BROKEN, TIMED_OUT

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a command: Ctrl-C, a service manager, a closed terminal."""
_KILL_WAIT_S = 0.5
_STOP_CHECK_S = 0.1
"""Interval between checks of `stop` while waiting, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads this machine's GPUs, each time in a new child process."""

    deadline_s: float
    """Seconds for one reading, loading the driver's library included."""
    stop: Callable[[], bool] = lambda: False

    def read(self) -> tuple[Gpu, ...]:
        """Reads every GPU. Raises NvmlCallFailed, also on a timeout, and StopRequested."""
        answer, answer_write = os.pipe()
        # Ctrl-C may arrive before the fork returns here, while the child already hangs in the
        # driver: it is raised only once the code below can end the child.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                # The parent decides when the child ends.
                for number in STOPPING:
                    signal.signal(number, signal.SIG_IGN)
                os.close(answer)
                write(answer_write, _answer())
                status = 0
            finally:
                os._exit(status)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            os.close(answer_write)
            data = self._await_answer(answer)
        finally:
            os.close(answer)
            os.kill(pid, signal.SIGKILL)
            # A child stuck in the kernel stays behind, but holds no descriptors of this process.
            reap(pid, wait_s=_KILL_WAIT_S)
        if not data:
            raise NvmlCallFailed(
                "reading the GPUs", BROKEN, "the child process ended without an answer"
            )
        gpus, refused = pickle.loads(data)  # noqa: S301 - written by our own child
        if refused:
            raise NvmlCallFailed(*refused)
        return tuple(gpus)

    def _await_answer(self, answer: int) -> bytes:
        deadline = time.monotonic() + self.deadline_s
        data = b""
        while not self.stop():
            now = time.monotonic()
            if now >= deadline:
                raise NvmlCallFailed(
                    "reading the GPUs",
                    TIMED_OUT,
                    f"no answer from the driver within {self.deadline_s:g} s",
                )
            if readable(answer, min(deadline, now + _STOP_CHECK_S)):
                chunk = os.read(answer, 65536)
                if not chunk:
                    return data
                data += chunk
        raise StopRequested("stop requested")


def _answer() -> bytes:
    try:
        with partition.opened() as silicon:
            return pickle.dumps((silicon.read(), None))
    except NvmlCallFailed as e:
        return pickle.dumps(((), (e.call, e.code, e.text)))
