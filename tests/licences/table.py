"""The table of licences, and which of them are allowed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TABLE: dict[str, Any] = tomllib.loads((Path(__file__).parent / "licences.toml").read_text())
ALLOWED = {*TABLE["permissive"], *TABLE["unchanged_files"]}


def allowed(expression: str) -> bool:
    """True if every licence of an expression with AND, or one of an expression with OR, is."""
    if " OR " in expression:
        return any(allowed(part) for part in expression.split(" OR "))
    return all(part in ALLOWED for part in expression.split(" AND "))


def not_allowed(table: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name}: {licence}" for name, licence in table if not allowed(licence)]
