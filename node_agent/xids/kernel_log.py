"""Reads the kernel log from the end of the last reading. Does not touch the driver.

The file stays open between readings: opened again, it would start at the oldest record. It needs no
capability: if the log may not be read, `unreadable` has the reason. Source:
Documentation/ABI/testing/dev-kmsg in the Linux kernel.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

KMSG = Path("/dev/kmsg")
_RECORD_MAX = 8192
"""The kernel's limit (CONSOLE_EXT_LOG_MAX). A smaller buffer is an error."""
_MAX_RECORDS = 50_000
"""Limit per reading: a kernel that writes faster than the agent reads must not block it."""


@dataclass(frozen=True, kw_only=True)
class Record:
    at_s: float
    """Seconds since boot, on the kernel's monotonic clock."""
    text: str


@dataclass
class KernelLog:
    """Use from one thread. Starts at the oldest record that the kernel still has."""

    path: Path = KMSG
    unreadable: str | None = None
    """Why the log cannot be read, None if it can."""
    _file: int | None = None

    def read(self) -> tuple[Record, ...]:
        """Records since the last reading, except records that the kernel has overwritten."""
        try:
            if self._file is None:
                self._file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            records = tuple(self._records(self._file))
        except OSError as e:
            self.close()
            self.unreadable = f"{self.path}: {e.strerror or e}"
            return ()
        self.unreadable = None
        return records

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> KernelLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _records(self, file: int) -> list[Record]:
        records = []
        for _ in range(_MAX_RECORDS):
            try:
                raw = os.read(file, _RECORD_MAX)
            except BlockingIOError:
                break
            except OSError as e:
                if e.errno != errno.EPIPE:
                    raise
                # records were overwritten, and the next read continues with the oldest
                continue
            if not raw:
                break
            if (record := parse(raw)) is not None:
                records.append(record)
        return records


def parse(raw: bytes) -> Record | None:
    """A record, `6,339,5140900,-;text` and continuation lines, None for anything else."""
    head, semicolon, rest = raw.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not fields[2].isdigit():
        return None
    return Record(at_s=int(fields[2]) / 1e6, text=rest.partition(b"\n")[0].decode(errors="replace"))
