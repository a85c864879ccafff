"""Proofs on request, from a process that has one thread and has never loaded libcuda.

The agent forks it at its start, like the fork server of the probes, and for the same reasons: an
agent with threads cannot fork safely, and a child of a small process is small.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slicewright.node_agent.compute import children
from slicewright.node_agent.compute.children import Limits
from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.occupancy import occupants
from slicewright.node_agent.nvml.child_process import read_message, write_message
from slicewright.node_agent.nvml.prober import ForkServerEnded, Prober

_REQUEST: Final = b"p"
_ANSWER: Final = b"a"
_GRACE_S: Final = 30.0
"""Added to the time of a proof: for the probes before each of its processes."""
_REQUEST_S: Final = 60.0
"""Time that a request may take to arrive, once it has begun."""

Devices = Mapping[str, Sequence[str]]
"""UUIDs of partitions or whole GPUs, by the GPU's UUID."""


@dataclass(frozen=True, kw_only=True)
class Prover:
    """A running prover. Use it from one thread, and close it. It also ends with its agent."""

    pid: int
    _to: int
    _from: int
    limits: Limits

    @classmethod
    def start(cls, *, deadline_s: float = 20.0, limits: Limits | None = None) -> Prover:
        """Forks the prover. deadline_s: seconds that a probe may take before each process."""
        # One process at a time: in a container the driver lists the proof's own processes under
        # ids of another namespace, so none may run while the driver lists the users of a GPU.
        limits = replace(limits or Limits(), parallel=1)
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
                _serve(request_read, answer_write, deadline_s, limits)
                status = 0
            finally:
                os._exit(status)
        os.close(request_read)
        os.close(answer_write)
        return cls(pid=pid, _to=request_write, _from=answer_read, limits=limits)

    @property
    def longest_s(self) -> float:
        """The longest time that `prove` takes."""
        return self.limits.total_s + _GRACE_S

    def prove(self, devices: Devices) -> Proof:
        """Proves devices, unless a process uses a GPU. Raises ForkServerEnded only."""
        deadline = time.monotonic() + self.longest_s
        try:
            write_message(self._to, _REQUEST, pickle.dumps({**devices}))
            answer = read_message(self._from, deadline)
        except (OSError, ValueError) as e:
            raise ForkServerEnded(f"the prover (process {self.pid}) ended: {e}") from e
        if answer is None:
            raise ForkServerEnded(f"the prover (process {self.pid}) ended or does not answer")
        proof: Proof = pickle.loads(answer[1])  # noqa: S301 - written by our own child
        return proof

    def close(self) -> None:
        """Ends the prover and, with it, a proof under way."""
        os.close(self._to)
        os.close(self._from)
        try:
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
        except (ChildProcessError, ProcessLookupError):
            pass  # already reaped


def _serve(request: int, answer: int, deadline_s: float, limits: Limits) -> None:
    # Ctrl-C reaches the whole foreground process group, but the agent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while message := _next_request(request):
        proof = _prove(pickle.loads(message[1]), deadline_s, limits)  # noqa: S301 - the agent's
        write_message(answer, _ANSWER, pickle.dumps(proof))


def _next_request(request: int) -> tuple[bytes, bytes] | None:
    """Waits for a request, for days if need be. None if the agent has closed the pipe."""
    poller = select.poll()
    poller.register(request, select.POLLIN)
    poller.poll()
    return read_message(request, time.monotonic() + _REQUEST_S)


def _prove(devices: Devices, deadline_s: float, limits: Limits) -> Proof:
    prober = Prober.start(deadline_s=deadline_s)
    try:
        return children.prove(
            devices, occupants=lambda _: occupants(prober.probe(thorough=True)), limits=limits
        )
    finally:
        prober.close()
