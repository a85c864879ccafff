"""Tools that are available, and how to find those that an earlier run obtained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slicewright.rehearsal.host.toolchain.cache import Cache, Entry
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import Tool, machine


@dataclass(frozen=True)
class Found:
    """A tool that is available."""

    tool: Tool
    origin: Literal["PATH", "downloaded", "built"]
    fresh: bool
    """Whether it was obtained by this run."""
    seconds: float
    """How long obtaining it took, in this run or an earlier one; 0 for PATH."""
    paths: Mapping[str, Path]
    """By field of Toolchain."""


@dataclass(frozen=True)
class Missing:
    """A tool that must be obtained, with the cache key of its build."""

    tool: Tool
    build_key: str
    why: str
    """Why it is not taken from PATH."""


def cached(tool: Tool, build_key: str, cache: Cache, settings: Settings) -> Entry | None:
    """The cached release, else the cached build, else None."""
    entry = None
    if tool.release is not None and machine() in tool.release.files:
        entry = cache.find(tool.name, release_key(tool, settings))
    return entry or cache.find(tool.name, build_key)


def release_key(tool: Tool, settings: Settings) -> str:
    """Hash of what determines the download; a mirror counts only where it serves the digests."""
    pinned = tool.release is not None and machine() in tool.release.sha256
    described = repr((machine(), tool.version, tool.release, None if pinned else settings.mirror))
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def of(tool: Tool, entry: Entry, *, fresh: bool) -> Found:
    return Found(
        tool,
        entry.origin,
        fresh,
        entry.seconds,
        {b.field: entry.file(b.name) for b in tool.binaries},
    )
