"""One problem of a stack file, and where in the file it is."""

from __future__ import annotations

from dataclasses import dataclass

KEY = "slicewright:fleet"
"""The configuration key of a fleet in `Pulumi.<stack>.yaml`."""
Path = tuple[str | int, ...]
"""Keys and list positions below `KEY`."""
REFERENCE = "docs/reference/stack-file.md"


@dataclass(frozen=True, kw_only=True)
class Problem:
    path: Path
    reason: str
    """What is wrong, and why. Read after the path: `must be at least 1, but is 0`."""
    instead: str
    """The remedy, an imperative: what to write, or what is allowed."""
    source: str = REFERENCE
    """Where the rule comes from; `REFERENCE` for rules of slicewright itself."""
    in_key: bool = False
    """Whether the key is wrong and not its value."""
