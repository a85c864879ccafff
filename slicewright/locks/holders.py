"""Whether the process that took a lock lives on this host."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from slicewright.locks.lock import Holder, Lock

_ALL_PROCESSES: Final = "pid:[4026531836]"
_THE_HOSTS_NAME: Final = "uts:[4026531838]"
"""Of the namespaces that a host boots with. Source: Linux, include/linux/proc_ns.h."""
_LATE_S: Final = 5.0
"""A start is known to a second or so; who takes a lock has started before."""


def holder_of(lock: Lock, proc: Path = Path("/proc")) -> Holder:
    """proc: of this host. A process that has the number, and started after the lock was taken, is
    another one.
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
    """In a container with the host's name the host's other processes are not seen."""
    try:
        processes = str((proc / "self/ns/pid").readlink())
        name = str((proc / "self/ns/uts").readlink())
    except OSError:
        return False  # not Linux
    return name == _THE_HOSTS_NAME and processes != _ALL_PROCESSES


def _has_number(entry: Path, pid: int) -> bool:
    """Whether it is, or in its container is, the process of that number."""
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
    """Seconds since the epoch; None where it has ended meanwhile, or is not known."""
    try:
        return booted + int(_fields(entry)[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def _is_dead(entry: Path) -> bool:
    """Whether nothing is left but its exit status, which its parent has not asked for: in a
    container without an init process, for as long as that runs.
    """
    try:
        return _fields(entry)[0] in ("Z", "X")
    except (OSError, IndexError):
        return False


def _fields(entry: Path) -> list[str]:
    """Of its `stat`, from the state on. The name before may hold spaces and parentheses."""
    return (entry / "stat").read_text().rpartition(")")[2].split()


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
