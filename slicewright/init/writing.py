"""Writes the files of a new project: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path


class Exists(Exception):
    """Paths that would be overwritten exist. The message lists them."""


def require_absent(directory: Path, names: Iterable[str]) -> None:
    """Raises Exists if one of the files exists, also as a directory or a broken link."""
    existing = [str(directory / name) for name in names if os.path.lexists(directory / name)]
    if existing:
        raise Exists(", ".join(existing))


def write(directory: Path, files: Mapping[str, str]) -> None:
    """Writes each file, and its directory if it is missing. Raises Exists, or OSError: then nothing
    that was written stays.
    """
    require_absent(directory, files)
    created: list[Path] = []
    try:
        for name, text in files.items():
            file = directory / name
            for parent in reversed(file.parents):
                if not parent.is_dir():
                    parent.mkdir()
                    created.append(parent)
            with file.open("x", encoding="utf-8") as opened:
                created.append(file)
                opened.write(text)
    except OSError:
        for path in reversed(created):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        raise
