"""The disk space that builds take, by directory.

Measured 2026-11-22 by building all tools, 1150 s on 2 cores: compiled packages 6.0 GB, modules
2.6 GB, the tools and what linking needs beside them 1 GB. One tool takes its part of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from slicewright.rehearsal.host.toolchain import disk
from slicewright.rehearsal.host.toolchain.tools import GoModule, Tool

REMEDY = (
    "delete files there, or set XDG_CACHE_HOME (the tools), GOCACHE and GOMODCACHE (what Go keeps) "
    "to directories on a larger disk"
)
_BYTES_PER_S = {"GOCACHE": 5.2e6, "GOMODCACHE": 2.3e6}
_TOOLS_BYTES_PER_S = 0.9e6


def needed(tools: Sequence[Tool], cache: Path, go_caches: Mapping[str, str]) -> dict[Path, float]:
    """Bytes that building `tools` still writes, by directory.

    cache: where the tools go. go_caches: GOCACHE and GOMODCACHE; what they hold already counts.
    """
    seconds = sum(tool.expected_s for tool in tools if isinstance(tool.source, GoModule))
    still = {cache: seconds * _TOOLS_BYTES_PER_S}
    for name, directory in go_caches.items():
        total = seconds * _BYTES_PER_S[name]
        still[Path(directory)] = total - disk.used(Path(directory), up_to=total)
    return still


def why_not_enough(tools: Sequence[Tool], cache: Path, go_caches: Mapping[str, str]) -> str | None:
    """None where `tools` can be built; else which directory is too full, and what to do."""
    return disk.why_not_enough(needed(tools, cache, go_caches), _purpose(tools), REMEDY)


def full(tools: Sequence[Tool], cache: Path, go_caches: Mapping[str, str]) -> str:
    """The message for a build that ended because a disk was full."""
    return disk.full(needed(tools, cache, go_caches), _purpose(tools), REMEDY)


def is_used_up(cache: Path, go_caches: Mapping[str, str]) -> bool:
    """Whether one of the directories that a build writes to has next to nothing free."""
    return any(disk.is_used_up(d) for d in (cache, *map(Path, go_caches.values())))


def _purpose(tools: Sequence[Tool]) -> str:
    return f"building {tools[0].name if len(tools) == 1 else f'{len(tools)} tools'}"
