"""Checks whether the process that took a lock is alive on this host."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from slicewright.locks.lock import Holder, Lock

_ALL_PROCESSES: Final = "pid:[4026531836]"
_THE_HOSTS_NAME: Final = "uts:[4026531838]"
"""Both are namespaces that a host boots with. Source: Linux, include/linux/proc_ns.h."""
_LATE_S: Final = 5.0
"""The tolerance for start times, which are accurate to about a second.

A lock's process started before it took the lock.
"""


def holder_of(lock: Lock, proc: Path = Path("/proc")) -> Holder:
    """proc: this host's proc file system.

    A process with the lock's number that started after the lock was taken is another process.
    """
    if lock.host != socket.gethostname() or _sees_only_a_part(proc):
        return Holder.ELSEWHERE
    if not (proc / "stat").is_file():
        return Holder.LIVES if _answers(lock.pid) else Holder.GONE
    booted = _booted(proc)
    for entry in proc.iterdir():
        if entry.name.isdigit() and _has_number(entry, lock.pid) and not _is_dead(entry):
            started = _started(entry, booted)
            if started is None or started <= lock.since.timestamp() + _LATE_S:
                return Holder.LIVES
    return Holder.GONE


def _sees_only_a_part(proc: Path) -> bool:
    """True in a container that has the host's name but does not see the host's other processes."""
    try:
        processes = str((proc / "self/ns/pid").readlink())
        name = str((proc / "self/ns/uts").readlink())
    except OSError:
        return False  # not Linux
    return name == _THE_HOSTS_NAME and processes != _ALL_PROCESSES


def _has_number(entry: Path, pid: int) -> bool:
    """True if the process has that number, on the host or in its container."""
    if entry.name == str(pid):
        return True
    try:
        status = (entry / "status").read_text()
    except OSError:
        return False  # it has just ended
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return str(pid) in line.split()[1:]
    return False


def _booted(proc: Path) -> float:
    lines = (proc / "stat").read_text().splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), 0.0)


def _started(entry: Path, booted: float) -> float | None:
    """Seconds since the epoch, or None if the process has ended or the time is unknown."""
    try:
        return booted + int(_fields(entry)[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def _is_dead(entry: Path) -> bool:
    """True for a zombie: only its exit status is left, and its parent has not asked for it.

    In a container without an init process, it stays as long as the container runs.
    """
    try:
        return _fields(entry)[0] in ("Z", "X")
    except (OSError, IndexError):
        return False


def _fields(entry: Path) -> list[str]:
    """The fields of its `stat`, from the state on. The name may hold spaces and parentheses."""
    return (entry / "stat").read_text().rpartition(")")[2].split()


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
