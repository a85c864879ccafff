"""A problem found by validation, and a fix that lets the rest of the file be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewright.infra.stack_file.problem import Path, Problem

MISSING = "is missing"
"""The reason of a problem with a missing required key."""


@dataclass(frozen=True, kw_only=True)
class RenameKey:
    """The key is a misspelling of `key`."""

    key: str


@dataclass(frozen=True, kw_only=True)
class ReplaceValue:
    """The intended value is clear, except at the paths in `unknown`."""

    value: Any
    unknown: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DropValue:
    """The intended value is unclear, and so are the values at the paths in `unknown`."""

    unknown: tuple[Path, ...] = ()


Fix = RenameKey | ReplaceValue | DropValue


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    problem: Problem
    loc: tuple[str | int, ...]
    """The location of the fix: pydantic's location of the error."""
    fix: Fix
