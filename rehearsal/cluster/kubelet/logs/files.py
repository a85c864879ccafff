"""The log files of containers."""

from __future__ import annotations

from pathlib import Path

_LONGEST = 20 * 1024 * 1024


def path(pod_directory: Path, container: str, attempt: int) -> Path:
    """The log of one run of a container, numbered as by the real kubelet."""
    return pod_directory / "log" / container / f"{attempt}.log"


def prepare(log: Path | None) -> None:
    """Creates the directory, and deletes logs older than the previous run's."""
    if log is None:
        return
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = {log.name, f"{int(log.stem) - 1}.log"}
    for old in log.parent.glob("*.log"):
        if old.name not in kept:
            old.unlink(missing_ok=True)


def newest(pod_directory: Path, container: str, *, previous: bool) -> Path | None:
    """The log of the current run, or of the previous one."""
    logs = sorted((pod_directory / "log" / container).glob("*.log"), key=lambda p: int(p.stem))
    if previous:
        logs = logs[:-1]
    return logs[-1] if logs else None


def tail(log: Path, lines: int | None) -> tuple[bytes, int]:
    """The last `lines` lines (None: all), and the offset at their end."""
    with log.open("rb") as file:
        size = file.seek(0, 2)
        start = max(0, size - _LONGEST)
        file.seek(start)
        data = file.read(size - start)
    if lines is not None:
        kept = data.splitlines(keepends=True)
        data = b"".join(kept[len(kept) - lines :] if lines else [])
    return data, size
