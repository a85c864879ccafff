"""The child process of a proof: it initializes CUDA, proves its devices, and ends by _exit.

It is forked before the parent has ever loaded libcuda, and forks nothing itself: CUDA does not
survive a fork. Results go to the parent through a pipe, a line each, as soon as they are there.
"""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.device_proof import prove, spoils_process
from slicewright.node_agent.compute.driver_api import Cuda, CudaError, LibraryMissingError
from slicewright.node_agent.compute.results import (
    Begun,
    Failure,
    Message,
    Refused,
    Started,
    to_line,
)
from slicewright.node_agent.nvml.child_process import write

_OPEN_FILES: Final = 4096
"""CUDA opens more than a thousand files for a GPU with all its instances."""
_FABRIC_WAIT_MS: Final = "5000"
_REMOVED_VARIABLES: Final = ("LD_PRELOAD", "LD_AUDIT")
_PR_SET_PDEATHSIG: Final = 1


def run(uuids: Sequence[str], output: int, parent: int) -> NoReturn:
    """Runs in the forked process, and ends it.

    output: the pipe for results.
    parent: process id of the process that forked this one, which ends if that one ends.
    """
    status = 1
    try:
        _isolate(output, parent)
        _set_environment(uuids)
        _prove_all(uuids, output)
        status = 0
    finally:
        os._exit(status)


def _isolate(output: int, parent: int) -> None:
    """Leaves the parent's process group, signals, files and limits."""
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    end_with_parent(parent)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        if descriptor > sys.stderr.fileno() and descriptor != output:
            _close(descriptor)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if most == resource.RLIM_INFINITY else min(_OPEN_FILES, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_with_parent(parent: int) -> None:
    """Has the kernel kill this forked process when its parent ends.

    parent: process id of the process that forked it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before the request above


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass  # that of the listing itself


def _set_environment(uuids: Sequence[str]) -> None:
    """CUDA reads its variables when it is loaded and initialized.

    Without those of MPS, of debugging and of the parent's choice of devices.
    """
    for name in [*os.environ]:
        if name.startswith("CUDA_") or name in _REMOVED_VARIABLES:
            del os.environ[name]
    os.environ.update(
        CUDA_VISIBLE_DEVICES=",".join(uuids),
        CUDA_CACHE_DISABLE="1",
        CUDA_MODULE_LOADING="LAZY",
        CUDA_FABRIC_INIT_TIMEOUT_MS=_FABRIC_WAIT_MS,
    )


def _prove_all(uuids: Sequence[str], output: int) -> None:
    def send(message: Message) -> None:
        write(output, to_line(message))

    try:
        began = time.monotonic()
        cuda = Cuda()
        cuda.init()
        init_ms = round((time.monotonic() - began) * 1000, 1)
        devices = {cuda.uuid(device): device for device in cuda.devices()}
        requested = {digits(uuid): uuid for uuid in uuids}
        send(
            Started(
                cuda=cuda.version(),
                init_ms=init_ms,
                uuids=tuple(requested[uuid] for uuid in devices if uuid in requested),
                unexpected=tuple(uuid for uuid in devices if uuid not in requested),
            )
        )
    except LibraryMissingError as e:
        send(Refused(failure=Failure(step="dlopen", name=signs.LIBRARY_MISSING, detail=str(e))))
        return
    except CudaError as e:
        send(Refused(failure=Failure(step=e.call, code=e.code, name=e.name)))
        return
    for uuid_digits, device in devices.items():
        if uuid_digits not in requested:
            continue
        send(Begun(uuid=requested[uuid_digits]))
        result = prove(cuda, device, requested[uuid_digits], secrets.randbits(32))
        send(result)
        if spoils_process(result):
            return


def digits(uuid: str) -> str:
    """The 32 hexadecimal digits of `MIG-…` or `GPU-…`."""
    return uuid.partition("-")[2].replace("-", "").lower()
