"""One problem of a stack file, and the path to it."""

from __future__ import annotations

from dataclasses import dataclass

Path = tuple[str | int, ...]
REFERENCE = "docs/reference/stack-file.md"
"""What a stack file may say, in words."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    path: Path
    """Keys and list positions below `slicewright:fleet`."""
    reason: str
    """What is wrong, and why."""
    instead: str
    """What to write. Where that cannot be known, what is allowed."""
    source: str = REFERENCE
    """Where the fact behind the refusal comes from; the reference, where it is a rule of
    slicewright's own.
    """
    in_key: bool = False
    """The key is wrong, not its value."""
