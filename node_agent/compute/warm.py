"""Keeps the GPUs started during a proof.

Without persistence mode the driver stops a GPU after its last client, and starts it again for the
next one, in one to three seconds. A proof has a process and a look at the GPUs' users for each GPU,
and each of them opens every GPU: eight cold GPUs would start sixteen times, for six minutes. An
open handle of NVML keeps them started. Source: NVIDIA, Driver Persistence.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_uint
from typing import Final, NoReturn

from slicewright.node_agent.compute.child import end_with_parent
from slicewright.node_agent.nvml.child_process import exit_status

_KILL_WAIT_S: Final = 0.5
_READY: Final = b"r"


@contextmanager
def started_gpus(wait_s: float) -> Iterator[None]:
    """A process holds every GPU for the time of the context. Without NVML none is held.

    wait_s: seconds that the start of all GPUs may take. Afterwards the context begins in any case.
    """
    output, child_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _hold(child_end, parent)
    os.close(child_end)
    try:
        poller = select.poll()
        poller.register(output, select.POLLIN)
        poller.poll(wait_s * 1000)
        yield
    finally:
        os.close(output)
        os.kill(pid, signal.SIGKILL)
        exit_status(pid, wait_s=_KILL_WAIT_S)


def _hold(output: int, parent: int) -> NoReturn:
    """Runs in the forked process, until it is killed. It ends with the parent."""
    status = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end_with_parent(parent)
        # The process that forks this one needs no structures of NVML.
        from slicewright.node_agent.nvml.binding import NvmlError, opened

        try:
            with opened() as nvml:
                for index in range(nvml.read("nvmlDeviceGetCount_v2", c_uint).value):
                    nvml.device(index)
                os.write(output, _READY)
                signal.pause()
        except NvmlError:
            status = 0  # the proof's own processes say why
    finally:
        os._exit(status)
