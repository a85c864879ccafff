"""The record of a process: a JSON file, written before its program starts, removed at its end."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slicewright.rehearsal.host.processes import children, kernel

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One started process, the leader of its own session and process group."""

    environment: Path
    name: str
    pid: int
    start_ticks: int
    boot_id: str
    log: Path
    stop_rank: int
    """Lower ends first: a process that others need while they end has a higher one."""


def is_alive(record: Recorded) -> bool:
    """Whether this process runs: same boot, pid and start time, and no zombie."""
    children.reap()
    return seen(record) is not None


def find(environment: Path, name: str) -> Recorded | None:
    """The running process of that name; None without one, or if it has ended."""
    record = load(environment, name)
    return record if record and is_alive(record) else None


def recorded(environment: Path) -> list[Recorded]:
    """Every record of the environment, whether its process runs or not."""
    names = sorted(path.stem for path in directory(environment).glob("*.json"))
    return [record for name in names if (record := load(environment, name))]


def seen(record: Recorded) -> kernel.Seen | None:
    """The running process of the record."""
    if record.boot_id != kernel.boot_id():
        return None
    process = kernel.see(record.pid)
    if process is None or process.ended or process.start_ticks != record.start_ticks:
        return None
    return process


def directory(environment: Path) -> Path:
    return environment.resolve() / "processes"


def check_name(name: str) -> None:
    """Raises ValueError for a name that cannot be a file name."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"process name {name!r}: must consist of letters, digits, '.', '_' and '-', and begin "
            "with a letter or digit"
        )


def load(environment: Path, name: str) -> Recorded | None:
    """The record; None without one, or with an unreadable one (the marks find the process)."""
    try:
        stored = json.loads((directory(environment) / f"{name}.json").read_text())
        return Recorded(
            environment=environment.resolve(),
            name=name,
            pid=int(stored["pid"]),
            start_ticks=int(stored["start_ticks"]),
            boot_id=str(stored["boot_id"]),
            log=Path(stored["log"]),
            stop_rank=int(stored["stop_rank"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(record: Recorded) -> None:
    """Writes the record atomically."""
    path = directory(record.environment) / f"{record.name}.json"
    content = {
        "pid": record.pid,
        "start_ticks": record.start_ticks,
        "boot_id": record.boot_id,
        "log": str(record.log),
        "stop_rank": record.stop_rank,
    }
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
    new.replace(path)


def remove(record: Recorded) -> None:
    """Removes the record, unless a newer process of that name has replaced it."""
    with locked(record.environment):
        if load(record.environment, record.name) in (record, None):
            (directory(record.environment) / f"{record.name}.json").unlink(missing_ok=True)


@contextlib.contextmanager
def locked(environment: Path) -> Iterator[None]:
    """A lock per environment, across processes; the kernel releases it when the holder dies."""
    descriptor = os.open(directory(environment), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
