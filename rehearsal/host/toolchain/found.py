"""Tools that are there, and how to find those that an earlier run obtained."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rehearsal.host.toolchain.cache import Cache, Entry
from rehearsal.host.toolchain.settings import Settings
from rehearsal.host.toolchain.tools import Tool, machine


@dataclass(frozen=True)
class Found:
    """One tool that is there."""

    tool: Tool
    origin: Literal["PATH", "downloaded", "built"]
    fresh: bool
    """Whether it was obtained by this run."""
    seconds: float
    """What obtaining it took, in this run or the earlier one; 0 for PATH."""
    paths: Mapping[str, Path]
    """By field of Toolchain."""


@dataclass(frozen=True)
class Missing:
    """One tool that is not, with the hash of what a build of it would be made from."""

    tool: Tool
    build_key: str
    why: str
    """Why it is not taken from PATH."""


def cached(tool: Tool, build_key: str, cache: Cache, settings: Settings) -> Entry | None:
    """What an earlier run left: the official release if it was downloaded, else the build."""
    entry = None
    if tool.release is not None and machine() in tool.release.files:
        entry = cache.find(tool.name, release_key(tool, settings))
    return entry or cache.find(tool.name, build_key)


def release_key(tool: Tool, settings: Settings) -> str:
    """Hash of what decides which file is downloaded. A mirror counts where the list of digests
    comes from it too.
    """
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
