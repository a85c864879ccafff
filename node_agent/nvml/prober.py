"""Probes the GPUs from a separate process with a deadline: a hung driver cannot hang the agent.

A `Prober` has two processes: the *fork server* (`fork_server`), forked once, before the agent has
threads and before it loads the API client, and the *worker* (`worker`) that it forks. The worker
calls the driver and is replaced if it hangs, fails, or still has resources of the driver.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from slicewright.node_agent.nvml import fork_server, observed
from slicewright.node_agent.nvml.child_process import read_message
from slicewright.node_agent.nvml.observed import BROKEN, Failure, Observation
from slicewright.node_agent.nvml.worker import UNCHANGED, Probes

_QUICK, _THOROUGH = b"?", b"!"
# Added to the deadline: for the answer's way through the fork server, on a machine under load.
_GRACE_S = 5.0


class ForkServerEnded(Exception):
    """The fork server ended. A process with threads cannot fork it: restart the agent."""


@dataclass
class Prober:
    """A running fork server. Use it from one thread, and close it. It also ends with its agent."""

    pid: int
    _to: int
    _from: int
    deadline_s: float
    _last: dict[bytes, tuple[bytes, Observation]] = field(default_factory=dict)
    """The last answer to each kind of request, as bytes and parsed: it may stay the same for
    days.
    """

    @classmethod
    def start(
        cls,
        *,
        deadline_s: float = 20.0,
        utilization: bool = False,
        probe: Callable[[], Observation] | None = None,
    ) -> Prober:
        """Forks the fork server.

        deadline_s: seconds that one probe may take.
        utilization: True if thorough probes measure it.
        probe: a replacement for the calls of NVML, for tests.
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
                fork_server.run(request_read, answer_write, deadline_s, probes)
                status = 0
            finally:
                os._exit(status)
        os.close(request_read)
        os.close(answer_write)
        return cls(pid=pid, _to=request_write, _from=answer_read, deadline_s=deadline_s)

    def probe(self, *, thorough: bool = False) -> Observation:
        """Makes one probe, with health and memory in use if thorough.

        Raises ForkServerEnded only: `failure` has every other error.
        """
        request = _THOROUGH if thorough else _QUICK
        try:
            os.write(self._to, request)
            answer = read_message(self._from, time.monotonic() + self.deadline_s + _GRACE_S)
        except (OSError, ValueError) as e:
            raise ForkServerEnded(f"the fork server (process {self.pid}) ended: {e}") from e
        if answer is None:
            raise ForkServerEnded(f"the fork server (process {self.pid}) ended or does not answer")
        kind, body = answer
        last = self._last.get(request)
        if last is None or (kind != UNCHANGED and last[0] != body):
            last = self._last[request] = body, observed.unpacked(body)
        return last[1]

    def close(self) -> None:
        """Ends the fork server, by closing its pipe."""
        os.close(self._to)
        os.close(self._from)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # already reaped


def probe_once(deadline_s: float, *, thorough: bool = False) -> Observation:
    """Makes one probe with a fork server of its own. Raises ForkServerEnded."""
    prober = Prober.start(deadline_s=deadline_s)
    try:
        return prober.probe(thorough=thorough)
    finally:
        prober.close()


def _nvml(utilization: bool) -> Probes:
    try:
        # Imported here, because only the fork server should load ctypes.
        from slicewright.node_agent.nvml.cache import Cache
        from slicewright.node_agent.nvml.probe import probe
    except ImportError as e:
        text = f"this Python cannot call NVML: {e}"
        broken = Observation(failure=Failure(call="probe", code=BROKEN, text=text))
        return {_QUICK: lambda: broken, _THOROUGH: lambda: broken}
    # It is empty when a worker is forked, so each worker begins with a complete look.
    cache = Cache()
    return {
        _QUICK: lambda: probe(cache=cache),
        _THOROUGH: lambda: probe(thorough=True, with_utilization=utilization, cache=cache),
    }
