"""Full disks: whether there is enough space before something big is written, and what to say."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


def free(directory: Path) -> int:
    """Bytes that can still be written at `directory`, which need not exist yet."""
    return shutil.disk_usage(_existing(directory)).free


def is_full(error: OSError) -> bool:
    """Whether a write failed because the disk, or the user's quota, is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def says_full(output: str) -> bool:
    """Whether a program's output says that the disk, or the user's quota, is used up."""
    return _FULL.search(output) is not None


def why_not_enough(needed: Mapping[Path, float], purpose: str, remedy: str) -> str | None:
    """None where there is space for all of `needed`; else where, how much, and the remedy.

    needed: bytes by directory, which need not exist yet; those on one file system add up.
    purpose: what the space is for, as in `building pulumi`.
    """
    directories: dict[int, list[Path]] = {}
    for directory in needed:
        directories.setdefault(_existing(directory).stat().st_dev, []).append(directory)
    for together in directories.values():
        total = sum(needed[directory] for directory in together)
        largest = max(together, key=lambda directory: needed[directory])
        if (left := free(largest)) < total:
            return f"{largest} has {size(left)} free, {purpose} needs {size(total)}; {remedy}"
    return None


def full(needed: Mapping[Path, float], purpose: str, remedy: str) -> str:
    """The message for a write that failed: as `why_not_enough`, for the fullest directory."""
    fullest = min(needed, key=free)
    return (
        f"the disk is full: {fullest} has {size(free(fullest))} free, {purpose} needs "
        f"{size(needed[fullest])}; {remedy}"
    )


def is_used_up(directory: Path, *, below: float = 10e6) -> bool:
    """Whether `directory` has next to nothing free."""
    return free(directory) < below


def used(directory: Path, *, up_to: float) -> float:
    """Bytes in the files below `directory`; counting ends at `up_to`."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 - many files
            except OSError:
                continue
        if total >= up_to:
            return up_to
    return total


def size(count: float) -> str:
    """`3.2 GB`, `340 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _existing(directory: Path) -> Path:
    return next(p for p in (directory, *directory.parents) if p.exists())
