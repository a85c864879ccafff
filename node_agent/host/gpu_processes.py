"""Processes that use a GPU, described from /proc, so that a refusal names the processes to stop."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from slicewright.node_agent.host.mig_state import Process

_PROC = Path("/proc")


def name_of(pid: int) -> str:
    """The program's name, or `?` for a process that is gone or in another namespace."""
    try:
        return (_PROC / str(pid) / "comm").read_text(
            encoding="utf-8", errors="replace"
        ).strip() or "?"
    except OSError:
        return "?"


def user_of(pid: int) -> str | None:
    """The process's user, None if /proc does not show the process."""
    try:
        number = (_PROC / str(pid)).stat().st_uid
    except OSError:
        return None
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def describe(process: Process) -> str:
    """Describes a process: `process 4711 (python, user ann, GPU instance 1)`."""
    user = user_of(process.pid)
    facts = [process.name, *([f"user {user}"] if user else [])]
    if process.gpu_instance is not None:
        facts.append(f"GPU instance {process.gpu_instance}")
    return f"process {process.pid} ({', '.join(facts)})"


def file_holders(path: str) -> list[Process]:
    """Other processes that have a file open, as in `fuser`.

    They include monitors such as dcgm and nvidia-persistenced: the driver does not list them as
    running on the GPU, but they prevent changes of MIG mode.
    """
    return [
        Process(pid=pid, name=name_of(pid), gpu_instance=None, compute_instance=None)
        for pid in sorted(_holders(path))
    ]


def _holders(path: str) -> Iterator[int]:
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            # readlink gives the text of the link.
            if any(os.readlink(link) == path for link in (entry / "fd").iterdir()):  # noqa: PTH115
                yield int(entry.name)
        except OSError:
            continue  # gone, or not readable for this user
