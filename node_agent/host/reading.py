"""How GPUs are cut, read in a process of its own: a driver call that hangs holds up neither `apply`
nor a Ctrl-C.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from node_agent.host import partition
from node_agent.host.cut import Gpu
from node_agent.host.transaction import Refusal, Stopped
from node_agent.nvml.children import ended, readable, write
from node_agent.nvml.observed import BROKEN, TIMED_OUT

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a command to stop: Ctrl-C, the system, a terminal that has gone."""
_KILL_WAIT_S = 0.5
_GLANCE_S = 0.1
"""How often the reader looks whether it is asked to stop."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads this machine's GPUs as often as asked, each time anew."""

    deadline_s: float
    """Seconds that one reading may take, the start of the driver's library included."""
    stop: Callable[[], bool] = lambda: False

    def read(self) -> tuple[Gpu, ...]:
        """Raises Refusal, also where the driver does not answer in time, and Stopped."""
        answer, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                # The parent decides when this ends.
                for number in STOPPING:
                    signal.signal(number, signal.SIG_IGN)
                os.close(answer)
                write(told, _answer())
                status = 0
            finally:
                os._exit(status)
        os.close(told)
        try:
            data = self._awaited(answer)
        finally:
            os.close(answer)
            os.kill(pid, signal.SIGKILL)
            # One that is stuck in the kernel cannot be ended; it holds nothing of ours.
            ended(pid, wait_s=_KILL_WAIT_S)
        if not data:
            raise Refusal(
                "reading the GPUs", BROKEN, "the process that reads ended without an answer"
            )
        gpus, refused = pickle.loads(data)  # noqa: S301 - written by our own child
        if refused:
            raise Refusal(*refused)
        return tuple(gpus)

    def _awaited(self, answer: int) -> bytes:
        deadline = time.monotonic() + self.deadline_s
        data = b""
        while not self.stop():
            now = time.monotonic()
            if now >= deadline:
                raise Refusal(
                    "reading the GPUs",
                    TIMED_OUT,
                    f"no answer from the driver within {self.deadline_s:g} s",
                )
            if readable(answer, min(deadline, now + _GLANCE_S)):
                chunk = os.read(answer, 65536)
                if not chunk:
                    return data
                data += chunk
        raise Stopped("asked to stop")


def _answer() -> bytes:
    try:
        with partition.opened() as silicon:
            return pickle.dumps((silicon.read(), None))
    except Refusal as e:
        return pickle.dumps(((), (e.call, e.code, e.text)))
