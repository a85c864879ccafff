"""A problem of a stack file, with its place in the file."""

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
    """The mistake and its cause, to follow the path: `must be at least 1, but is 0`."""
    instead: str
    """The remedy as an imperative: the text to write, or the allowed values."""
    source: str = REFERENCE
    """The source of the rule, `REFERENCE` for rules of slicewright itself."""
    in_key: bool = False
    """True if the key is wrong, not its value."""
    file: str = ""
    """The name of the file if `path` counts in that file alone. Empty: `path` counts in the fleet,
    which may be merged from several files.
    """
    code: str = ""
    """The rule's code in problem_codes.toml, which never changes. The plan's checks add it with
    `rule`.
    """
