"""The standard streams of a process: one that is closed, or whose encoding lacks characters."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress


def open_closed_streams() -> bool:
    """Opens the null device in place of standard streams that are closed. Returns True if stdout
    was closed.

    Otherwise the next file that is opened would become the closed stream, and get its output.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is used, which is this one.
            os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)
    closed = sys.stdout is None
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if closed:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    return closed


def replace_unencodable() -> None:
    """Prints a question mark in place of a character that the encoding of stdout lacks, such as
    one for drawing boxes, and reads one in place of an invalid one.
    """
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def drop_output() -> None:
    """Sends what stdout and stderr still hold to the null device: Python would fail again when it
    flushes them at its end.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
