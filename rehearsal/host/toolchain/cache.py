"""The per-user cache of obtained tools: every entry is whole or not there, and made by one process
at a time.

    NAME-HASH/stamp.json, NAME-HASH/bin/…   one entry; HASH covers everything that the tool was made
    from
    staging/NAME.XXXX/                      an entry being made, renamed into place when complete
    locks/NAME.lock                         held (flock) by the process that makes entries called
    NAME
    log/NAME.log                            what its last build said

A lock ends with its holder, however that ends. So whoever holds a name's lock knows that every
staging directory of that name was left behind, without trusting process numbers, which mean nothing
across containers that share a cache.
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

from rehearsal.host.toolchain.errors import ToolchainError
from rehearsal.host.toolchain.reporting import Report

Origin = Literal["downloaded", "built"]

_KEEP_UNUSED_S = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Entry:
    """One complete entry. `seconds` is what it took to make, `made` the time it was complete
    (seconds since 1970).
    """

    directory: Path
    origin: Origin
    seconds: float
    made: float
    files: Mapping[str, int]
    """Size in bytes by path below bin/, as it was when the entry was made."""

    def file(self, name: str) -> Path:
        return self.directory / "bin" / name


class Cache:
    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, name: str, key: str) -> Entry | None:
        """The entry, if it is there and none of its files has been lost or cut. No file is read but
        the stamp.
        """
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
            os.utime(directory)  # the time of last use, by which old entries are let go
        return entry

    @contextmanager
    def lock(self, name: str, report: Report) -> Iterator[None]:
        """Alone with everything called `name`. Waits for another process, saying so, for as long as
        that takes.
        """
        with self._locks(name).open("a+") as file:
            if not _try(file.fileno()):
                file.seek(0)
                report(
                    f"{name}: another run (process {file.read().strip() or 'unknown'}) is "
                    "getting it; waiting for that one"
                )
                fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._sweep(name)
            yield

    @contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """A directory for making an entry, with bin/ in it; gone afterwards unless published. Only
        under the lock of `name`.
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
        """Makes the contents of `staged` the entry; what else was in `staged` than bin/ is removed.
        Only under the lock.
        """
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
        if final.exists():  # damaged, or `find` would have found it
            final.rename(
                Path(tempfile.mkdtemp(prefix=f"{name}.", dir=self.root / "staging")) / "damaged"
            )
        staged.rename(final)
        self._let_go(name, keep=final)
        self._sweep(name)
        entry = self.find(name, key)
        if entry is None:
            raise ToolchainError(
                f"{final} was written and is not there; is something else clearing {self.root}?"
            )
        return entry

    def log(self, name: str) -> Path:
        (self.root / "log").mkdir(parents=True, exist_ok=True)
        return self.root / "log" / f"{name}.log"

    def sweep(self) -> None:
        """Removes what interrupted runs left, of every name that nobody is working on."""
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

    def _let_go(self, name: str, *, keep: Path) -> None:
        # Not at once: an environment from before a change of version still runs the old files.
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
    """Removes a file or a whole tree, read-only directories included (Go's module cache is made of
    them).
    """
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
