"""The record of a process: one JSON file, written before the process may do anything, removed when
it has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rehearsal.host.processes import children, kernel

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One process that was started here. Also the leader of its own session and process group."""

    environment: Path
    name: str
    pid: int
    start_ticks: int
    boot_id: str
    log: Path
    stop_rank: int
    """Lower ends first; what others need to end well has a higher one."""


def is_alive(record: Recorded) -> bool:
    """Whether this very process still runs: same boot, same pid, same start. A zombie does not."""
    children.reap()
    return seen(record) is not None


def find(environment: Path, name: str) -> Recorded | None:
    """The running process of that name, or None. A record whose process has ended counts as
    none.
    """
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
    """Raises ValueError for a name that could not be a file's."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"process name {name!r}: letters, digits, '.', '_' and '-' only, and a letter "
            "or digit first"
        )


def load(environment: Path, name: str) -> Recorded | None:
    """The record, or None where there is none or it cannot be read (then the marks still find the
    process).
    """
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
    """Whole or not at all: a reader never sees half a record."""
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
    """Takes the record away, unless a newer process of that name has its own there by now."""
    with locked(record.environment):
        if load(record.environment, record.name) in (record, None):
            (directory(record.environment) / f"{record.name}.json").unlink(missing_ok=True)


@contextlib.contextmanager
def locked(environment: Path) -> Iterator[None]:
    """One at a time per environment, across processes; the kernel lets go when the holder dies."""
    descriptor = os.open(directory(environment), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
