"""The per-user cache of tools: entries appear complete, and are made by one process at a time.

    NAME-HASH/stamp.json, NAME-HASH/bin/…   an entry; HASH covers all inputs of the tool
    staging/NAME.XXXX/                      an entry being made, renamed when complete
    locks/NAME.lock                         locked (flock) while an entry called NAME is made
    log/NAME.log                            the output of its last build

The kernel releases a lock when its holder dies. So whoever holds the lock may delete all staging
directories of that name; pids would be ambiguous across containers that share a cache.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slicewright.rehearsal.host.toolchain.errors import ToolchainError
from slicewright.rehearsal.host.toolchain.reporting import Report

Origin = Literal["downloaded", "built"]

_KEEP_UNUSED_S = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Entry:
    """A complete entry. seconds: how long it took to make. made: when (seconds since 1970)."""

    directory: Path
    origin: Origin
    seconds: float
    made: float
    files: Mapping[str, int]
    """Size in bytes by path below bin/ when the entry was made."""

    def file(self, name: str) -> Path:
        return self.directory / "bin" / name


class Cache:
    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, name: str, key: str) -> Entry | None:
        """The entry, if it exists and all its files have their sizes."""
        directory = self.root / f"{name}-{key}"
        try:
            stamp = json.loads((directory / "stamp.json").read_text())
            entry = Entry(
                directory, stamp["origin"], stamp["seconds"], stamp["made"], stamp["files"]
            )
            for file, size in entry.files.items():
                if entry.file(file).stat().st_size != size:
                    return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        with suppress(OSError):
            os.utime(directory)  # the time of last use; unused entries are deleted
        return entry

    @contextmanager
    def lock(self, name: str, report: Report) -> Iterator[None]:
        """Locks everything called `name`, after waiting for any other process (with a report)."""
        with self._locks(name).open("a+") as file:
            if not _try(file.fileno()):
                file.seek(0)
                report(
                    f"{name}: waiting for another run, process {file.read().strip() or 'unknown'}, "
                    "which is obtaining it"
                )
                fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._sweep(name)
            yield

    @contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """A directory with bin/ for making an entry; deleted afterwards unless published.

        Only under the lock of `name`.
        """
        with suppress(FileExistsError):
            (self.root / "staging").mkdir(parents=True)
        directory = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self.root / "staging"))
        try:
            (directory / "bin").mkdir()
            yield directory
        finally:
            remove(directory)

    def publish(
        self,
        staged: Path,
        name: str,
        key: str,
        *,
        origin: Origin,
        seconds: float,
        files: tuple[str, ...],
    ) -> Entry:
        """Makes bin/ of `staged` the entry, and deletes the rest. Only under the lock."""
        for other in staged.iterdir():
            if other.name != "bin":
                remove(other)
        sizes = {file: (staged / "bin" / file).stat().st_size for file in files}
        stamp = {
            "origin": origin,
            "seconds": round(seconds, 1),
            "made": time.time(),
            "files": sizes,
        }
        (staged / "stamp.json").write_text(json.dumps(stamp) + "\n")
        staged.chmod(0o755)
        final = self.root / f"{name}-{key}"
        if final.exists():  # damaged, or `find` would have returned it
            final.rename(
                Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self.root / "staging")) / "damaged"
            )
        staged.rename(final)
        self._delete_unused(name, keep=final)
        self._sweep(name)
        entry = self.find(name, key)
        if entry is None:
            raise ToolchainError(
                f"{final} was written and has vanished; does another program clear {self.root}?"
            )
        return entry

    def log(self, name: str) -> Path:
        (self.root / "log").mkdir(parents=True, exist_ok=True)
        return self.root / "log" / f"{name}.log"

    def sweep(self) -> None:
        """Deletes what interrupted runs left, of every name that is not locked."""
        with suppress(OSError):
            for name in {p.name.rpartition(".")[0] for p in (self.root / "staging").iterdir()}:
                with self._locks(name).open("a+") as file:
                    if _try(file.fileno()):
                        self._sweep(name)

    def _locks(self, name: str) -> Path:
        (self.root / "locks").mkdir(parents=True, exist_ok=True)
        return self.root / "locks" / f"{name}.lock"

    def _sweep(self, name: str) -> None:
        for directory in (self.root / "staging").glob(f"{name}.*"):
            if directory.name.rpartition(".")[0] == name:
                remove(directory)

    def _delete_unused(self, name: str, *, keep: Path) -> None:
        # Not at once: an environment that still runs may use the old files.
        for directory in self.root.glob(f"{name}-*"):
            hashed = directory.name.removeprefix(f"{name}-")
            if (
                directory == keep
                or len(hashed) != len(keep.name.removeprefix(f"{name}-"))
                or "-" in hashed
            ):
                continue
            with suppress(OSError):
                if time.time() - directory.stat().st_mtime > _KEEP_UNUSED_S:
                    remove(directory)


def remove(path: Path) -> None:
    """Deletes a file or a tree, including read-only directories as in Go's module cache."""
    if path.is_dir() and not path.is_symlink():
        for directory, _, _ in os.walk(path):
            with suppress(OSError):
                Path(directory).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
