"""Reads a file that other people or programs wrote: never for ever, and never without a word."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from slicewright.processes.foreign_json import decoded
from slicewright.processes.waits import announced

LARGEST: Final = 256 * 2**20


class NotAFile(Exception):
    """The file cannot be read. The message says why, without its name."""


def read_bytes(file: str, *, largest: int = LARGEST) -> bytes:
    """file: a path, which may name a pipe, or `-` for stdin. Raises NotAFile."""
    name = "stdin" if file == "-" else file
    try:
        with announced(f"waiting for {name}"):
            content = _read(file, largest + 1)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        raise NotAFile(reason or str(e)) from None
    if len(content) > largest:
        limit = f"{largest // 2**20} MiB" if largest >= 2**20 else f"{largest // 2**10} KiB"
        raise NotAFile(f"larger than {limit}")
    return content


def read_text(file: str, *, largest: int = LARGEST) -> str:
    """Like `read_bytes`, for UTF-8, or UTF-16 with a byte order mark."""
    try:
        return decoded(read_bytes(file, largest=largest))
    except UnicodeDecodeError:
        raise NotAFile("not valid UTF-8") from None


def _read(file: str, size: int) -> bytes:
    if file == "-":
        buffer = getattr(sys.stdin, "buffer", None)
        # Tests put a stream of text in its place.
        return buffer.read(size) if buffer else sys.stdin.read(size).encode()
    with Path(file).open("rb") as stream:
        return stream.read(size)
