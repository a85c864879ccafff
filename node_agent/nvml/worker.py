"""The process that asks the driver: one look at each request, and nothing of the driver in between.

It is kept for several looks only as long as every look leaves it as a new process would be. A look
loads the driver's library, initializes NVML, shuts it down and unloads the library, as NVIDIA's
own binding does (go-nvml, pkg/nvml/init.go and lib.go): so the next one finds a partition made
since, a GPU lost or added, and the library of a driver upgraded in between. What that would not
cover ends the worker, and the next look is a new process's:

- a failed look: the fork server asks a new worker before anything is reported (`fork_server`);
- a device, another descriptor, a thread or a mapping of the driver that is still there afterwards;
- `LOOKS` looks, which bounds what a driver leaks and what the dynamic loader remembers.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from node_agent.nvml import observed
from node_agent.nvml.child_process import write, write_message
from node_agent.nvml.observed import BROKEN, Failure, Observation

Probes = Mapping[bytes, Callable[[], Observation]]
"""Request, one byte -> what to do."""

LOOKS = 30
"""Five minutes at the default interval."""

OBSERVED, UNCHANGED, FAILED = b"o", b"u", b"f"
"""Kinds of answers; UNCHANGED, which has no body: equal to the last answer to such a request."""
READY = b"r"
"""Follows an answer: nothing of the driver is held, the next request may come."""


def work(request: int, answer: int, probes: Probes) -> None:
    """Answers requests until the pipe is closed or the worker is to be replaced."""
    inherited = Inherited()
    last: dict[bytes, Observation] = {}
    for look in range(1, LOOKS + 1):
        kind = os.read(request, 1)
        if not kind:
            return
        observation = _look(probes[kind])
        if observation == last.get(kind):
            write_message(answer, UNCHANGED)
        else:
            last[kind] = observation
            write_message(answer, _kind(observation), observed.packed(observation))
        # The agent has its answer; the rest is done while nothing waits for it.
        if look == LOOKS or _kind(observation) == FAILED:
            return
        del observation
        # Exceptions and their frames, for example, refer to each other. Only this look's: whatever
        # outlived an earlier one is remembered on purpose.
        gc.collect(0)
        if not inherited.is_all():
            return
        write(answer, READY)


class Inherited:
    """What this process holds of descriptors, threads, and mapped files and devices of NVIDIA."""

    def __init__(self) -> None:
        self._opened = _opened()
        self._files, self._pages = _nvidia_files(), _pages()

    def is_all(self) -> bool:
        """Whether it holds the same as when this was made."""
        if _opened() != self._opened:
            return False
        pages = _pages()
        if pages != self._pages:
            # What is still mapped makes the address space larger; so does memory of Python. To look
            # at each mapping takes as long as a quarter of a look, and is seldom needed.
            if _nvidia_files() != self._files:
                return False
            self._pages = pages
        return True


def _opened() -> tuple[int, int]:
    """Number of descriptors and of threads."""
    return _entries("/proc/self/fd"), _entries("/proc/self/task")


def _entries(directory: str) -> int:
    with os.scandir(directory) as entries:
        return sum(1 for _ in entries)


def _pages() -> bytes:
    """Size of the address space. Source: proc_pid_statm(5), first field."""
    # Not by pathlib, which takes three times as long.
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return os.read(statm, 64).partition(b" ")[0]
    finally:
        os.close(statm)


def _nvidia_files() -> frozenset[bytes]:
    """What is mapped: files of a driver, and devices."""
    maps = Path("/proc/self/maps").read_bytes()
    return frozenset(line.partition(b"/")[2] for line in maps.splitlines() if b"nvidia" in line)


def failure(code: int, text: str) -> bytes:
    """An observation with nothing but a failure of the probe itself, for the pipe."""
    return observed.packed(Observation(failure=Failure(call="probe", code=code, text=text)))


def _look(probe: Callable[[], Observation]) -> Observation:
    try:
        return probe()
    except Exception as e:  # noqa: BLE001 - whatever it was must reach the agent as a failure
        text = f"{type(e).__name__}: {e}"
        return Observation(failure=Failure(call="probe", code=BROKEN, text=text))


def _kind(observation: Observation) -> bytes:
    failed = observation.failure or any(gpu.failure for gpu in observation.gpus)
    return FAILED if failed else OBSERVED
