"""Runs a proof: starts the child processes, few at a time, and ends every one of them.

The caller is a process with one thread that has not loaded libcuda.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slicewright.node_agent.compute import child
from slicewright.node_agent.compute.judgement import Proof, judge
from slicewright.node_agent.compute.results import Begun, DeviceResult, Refused, Started, from_line
from slicewright.node_agent.compute.units import Run, Unit, follow_up, initial
from slicewright.node_agent.compute.warm import started_gpus
from slicewright.node_agent.nvml.child_process import exit_status

_KILL_WAIT_S: Final = 0.5
_READ_BYTES: Final = 65536

Occupants = Callable[[frozenset[int]], Sequence[str]]
"""Describes the processes that use a GPU, without those with the given ids."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times in seconds.

    A GPU without persistence takes up to three seconds to start, one after the other: the first
    processes wait for all of them.
    """

    parallel: int = 2
    """Processes at once. Contexts are created one after the other in any case."""
    cold_s: float = 10.0
    cold_per_gpu_s: float = 3.0
    warm_s: float = 5.0
    warm_per_device_s: float = 1.0
    total_s: float = 120.0

    def cold_start_s(self, gpus: int) -> float:
        """Seconds that the start of all GPUs may take."""
        return self.cold_s + self.cold_per_gpu_s * gpus

    def of_process(self, unit: Unit, *, gpus: int, warm: bool) -> float:
        """Seconds that a process may take."""
        work_s = self.warm_per_device_s * len(unit.uuids)
        if warm:
            return self.warm_s + work_s
        return self.cold_start_s(gpus) + work_s


@dataclass
class _Process:
    """A running child process, and its messages so far."""

    pid: int
    output: int
    unit: Unit
    deadline: float
    unread: bytes = b""
    started: Started | None = None
    refused: Refused | None = None
    begun: str | None = None
    results: list[DeviceResult] = field(default_factory=list)

    def receive(self) -> bool:
        """Reads the available output. False at its end."""
        data = os.read(self.output, _READ_BYTES)
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            self._note(line)
        return bool(data)

    def _note(self, line: bytes) -> None:
        match from_line(line):
            case Started() as started:
                self.started = started
            case Refused() as refused:
                self.refused = refused
            case Begun(uuid=uuid):
                self.begun = uuid
            case DeviceResult() as result:
                self.results.append(result)

    def end(self, *, timed_out: bool) -> Run:
        """Kills the process group, reaps the process, and returns its run."""
        os.close(self.output)
        try:
            # At the end of the output, the process is at its _exit.
            status = None if timed_out else exit_status(self.pid, wait_s=_KILL_WAIT_S)
            if status is None:
                os.killpg(self.pid, signal.SIGKILL)
                status = exit_status(self.pid, wait_s=_KILL_WAIT_S)
        except ProcessLookupError:
            status = exit_status(self.pid, wait_s=_KILL_WAIT_S)
        return Run(
            unit=self.unit,
            started=self.started,
            refused=self.refused,
            results=tuple(self.results),
            begun=self.begun,
            timed_out=timed_out,
            status=_describe(status, timed_out=timed_out),
        )


def _describe(status: int | None, *, timed_out: bool) -> str:
    if status is None:
        return "the process does not end, although it was killed"
    if timed_out:
        return "the process was ended at its deadline"
    if os.WIFSIGNALED(status):
        return f"the process ended with {signal.Signals(os.WTERMSIG(status)).name}"
    return f"the process ended with exit code {os.WEXITSTATUS(status)}"


def prove(
    devices: Mapping[str, Sequence[str]],
    *,
    occupants: Occupants,
    limits: Limits = Limits(),
) -> Proof:
    """Proves devices, never beside a process that `occupants` names.

    devices: UUIDs of partitions or whole GPUs, by the GPU's UUID.
    """
    began = time.monotonic()
    work = _Work(waiting=list(initial(devices)), gpus=len(devices), limits=limits, began=began)
    with started_gpus(limits.cold_start_s(len(devices))):
        try:
            work.run(occupants)
        finally:
            work.end_all()
    return judge(devices, work.runs, seconds=time.monotonic() - began, in_use=work.in_use)


@dataclass
class _Work:
    waiting: list[Unit]
    gpus: int
    limits: Limits
    began: float
    running: list[_Process] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    in_use: Sequence[str] = ()

    def run(self, occupants: Occupants) -> None:
        end = self.began + self.limits.total_s
        while self.running or (self.waiting and not self.in_use and time.monotonic() < end):
            while self._may_start(end) and self._is_free(occupants):
                self.running.append(self._start(self.waiting.pop(0), end))
            self._receive()

    def _may_start(self, end: float) -> bool:
        return (
            bool(self.waiting)
            and not self.in_use
            and len(self.running) < self.limits.parallel
            and time.monotonic() < end
        )

    def _is_free(self, occupants: Occupants) -> bool:
        self.in_use = occupants(frozenset(process.pid for process in self.running))
        return not self.in_use

    def _start(self, unit: Unit, end: float) -> _Process:
        warm = any(run.started for run in self.runs)
        seconds = self.limits.of_process(unit, gpus=self.gpus, warm=warm)
        output, child_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            child.run(unit.uuids, child_end, parent)
        os.close(child_end)
        try:
            os.setpgid(pid, pid)  # the child does the same: whichever comes first
        except (PermissionError, ProcessLookupError):
            pass
        return _Process(
            pid=pid, output=output, unit=unit, deadline=min(end, time.monotonic() + seconds)
        )

    def _receive(self) -> None:
        """Waits for output or the next deadline, and takes note of the processes that ended."""
        if not self.running:
            return
        poller = select.poll()
        for process in self.running:
            poller.register(process.output, select.POLLIN)
        until = min(process.deadline for process in self.running)
        ready = {fd for fd, _ in poller.poll(max(0.0, until - time.monotonic()) * 1000)}
        for process in [*self.running]:
            if process.output in ready and process.receive():
                continue
            timed_out = process.output not in ready
            if timed_out and time.monotonic() < process.deadline:
                continue
            self._end(process, timed_out=timed_out)

    def _end(self, process: _Process, *, timed_out: bool) -> None:
        self.running.remove(process)
        run = process.end(timed_out=timed_out)
        self.runs.append(run)
        self.waiting += follow_up(run)

    def end_all(self) -> None:
        """Ends every running process, after an exception."""
        for process in self.running:
            process.end(timed_out=True)
