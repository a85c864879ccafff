"""The process that calls the driver: a look per request, without driver resources in between.

It is reused for several looks as long as every look leaves it like a new process. A look
loads the driver's library, initializes NVML, shuts it down and unloads the library, as NVIDIA's
own binding does (go-nvml, pkg/nvml/init.go and lib.go): so the next look sees new partitions, lost
or added GPUs, and the library of an upgraded driver. Every other change ends the worker, and the
next look uses a new process:

- a failed look: the fork server asks a new worker before it reports a failure (`fork_server`);
- a device, another descriptor, a thread or a mapping of the driver that still exists afterwards;
- `LOOKS` looks, which limits leaks of a driver and the memory of the dynamic loader.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from slicewright.node_agent.nvml import observed
from slicewright.node_agent.nvml.child_process import write, write_message
from slicewright.node_agent.nvml.observed import BROKEN, Failure, Observation

Probes = Mapping[bytes, Callable[[], Observation]]
"""Request of one byte -> the probe."""

LOOKS = 30
"""Five minutes at the default interval."""

OBSERVED, UNCHANGED, FAILED = b"o", b"u", b"f"
"""Kinds of answers. UNCHANGED has no body: equal to the last answer to the same request."""
READY = b"r"
"""Follows an answer: all driver resources are released, and the next request may come."""


def work(request: int, answer: int, probes: Probes) -> None:
    """Answers requests until the pipe is closed or the worker must be replaced."""
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
        # The agent has its answer, so nothing waits for the rest.
        if look == LOOKS or _kind(observation) == FAILED:
            return
        del observation
        # Exceptions and their frames, for example, refer to each other. Only this look's objects
        # are collected: older objects are cached on purpose.
        gc.collect(0)
        if not inherited.is_all():
            return
        write(answer, READY)


class Inherited:
    """Descriptors, threads, and mapped NVIDIA files and devices of this process."""

    def __init__(self) -> None:
        self._opened = _opened()
        self._files, self._pages = _nvidia_files(), _pages()

    def is_all(self) -> bool:
        """True if the process has the same resources as at the creation of this object."""
        if _opened() != self._opened:
            return False
        pages = _pages()
        if pages != self._pages:
            # Remaining mappings make the address space larger, but so does memory of Python. A
            # check of each mapping takes a quarter of the time of a look, and is seldom needed.
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
    # pathlib would take three times as long.
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return os.read(statm, 64).partition(b" ")[0]
    finally:
        os.close(statm)


def _nvidia_files() -> frozenset[bytes]:
    """Mapped files of a driver, and mapped devices."""
    maps = Path("/proc/self/maps").read_bytes()
    return frozenset(line.partition(b"/")[2] for line in maps.splitlines() if b"nvidia" in line)


def failure(code: int, text: str) -> bytes:
    """An observation with only a failure of the probe itself, for the pipe."""
    return observed.packed(Observation(failure=Failure(call="probe", code=code, text=text)))


def _look(probe: Callable[[], Observation]) -> Observation:
    try:
        return probe()
    except Exception as e:  # noqa: BLE001 - every error must reach the agent as a failure
        text = f"{type(e).__name__}: {e}"
        return Observation(failure=Failure(call="probe", code=BROKEN, text=text))


def _kind(observation: Observation) -> bytes:
    failed = observation.failure or any(gpu.failure for gpu in observation.gpus)
    return FAILED if failed else OBSERVED
