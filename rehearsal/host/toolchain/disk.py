"""Room for building."""

from __future__ import annotations

import shutil
from pathlib import Path

ENOUGH_BYTES = 10e9
"""Go's caches grow to about 9 GB when all tools are built (measured 2026-11-21), the tools
themselves to 0.5 GB.
"""


def free(place: Path) -> int:
    """Bytes that can still be written at `place`, which need not exist yet."""
    return shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free


def room(place: Path) -> str:
    return (
        f"{free(place) / 1e9:.1f} GB are free at {place}, and building all tools needs "
        f"about {ENOUGH_BYTES / 1e9:.0f} GB, "
        "most of it for Go's caches (GOCACHE and GOMODCACHE can lie elsewhere)"
    )
