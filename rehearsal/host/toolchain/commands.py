"""Long commands: output to a log, progress now and then, and no process left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_GRACE_S = 5.0
_PR_SET_PDEATHSIG = 1


def run(
    argv: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    directory: Path,
    log: Path,
    progress: Callable[[int], None],
    every_s: float,
) -> int:
    """Runs a command to its end, its output in `log`; returns its exit code.

    `progress` is called every `every_s` seconds with the command's session id. When interrupted
    (KeyboardInterrupt, or any exception from `progress`), it first ends the command and all its
    children. When this process is killed, the kernel kills the command.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=directory,
            # its own group, so that ending it reaches compilers and linkers too
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - one prctl call, library loaded
        )
        try:
            while True:
                try:
                    return process.wait(timeout=every_s)
                except subprocess.TimeoutExpired:
                    progress(process.pid)
        finally:
            _end(process)


def names(session: int) -> frozenset[str]:
    """Names of the programs that run in a session, as the kernel has them (15 characters)."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ProcessLookupError):
            if os.getsid(int(process.name)) == session:
                found.add((process / "comm").read_text().strip())
    return frozenset(found)


def tail(log: Path, lines: int = 15) -> list[str]:
    """The last lines that are not empty."""
    with suppress(OSError):
        return [line for line in log.read_text(errors="replace").splitlines() if line.strip()][
            -lines:
        ]
    return []


def _die_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def ask_the_kernel() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return ask_the_kernel


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)  # `go` answers it by removing its working directory
    try:
        process.wait(_GRACE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
