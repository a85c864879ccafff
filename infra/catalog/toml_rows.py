"""Reads TOML files of the catalog and turns their tables into rows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from slicewright.infra.catalog.catalog_error import CatalogError

Row = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K")


def read(directory: Path, name: str) -> Row:
    """The content of a TOML file, with the full names of sources."""
    raw = tomllib.loads((directory / name).read_text(encoding="utf-8"))
    if names := raw.get("sources"):
        short = re.compile("|".join(rf"(?<![\w/-]){re.escape(abbr)}(?![\w/-])" for abbr in names))
        _expand_sources(raw, lambda source: short.sub(lambda match: names[match[0]], source))
    return raw


def _expand_sources(part: Any, in_full: Callable[[str], str]) -> None:
    """Replaces the short names of sources, which the file defines, by the full names."""
    for inner in (
        part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    ):
        _expand_sources(inner, in_full)
    if isinstance(part, dict) and isinstance(part.get("source"), str):
        part["source"] = in_full(part["source"])


def build(row: Callable[[Row], T], raw: Row) -> T:
    """The row that `row` builds from a copy of `raw`. Raises CatalogError."""
    try:
        return row(dict(raw))
    except (TypeError, KeyError, ValueError) as e:
        raise CatalogError(f"catalog row {raw.get('name', raw)!r}: {type(e).__name__} {e}") from e


def keyed(rows: list[T], key: Callable[[T], K]) -> dict[K, T]:
    """The rows by key. Raises CatalogError for a duplicate."""
    by_key = {key(row): row for row in rows}
    if len(by_key) != len(rows):
        raise CatalogError(f"catalog: duplicate row in {[key(row) for row in rows]}")
    return by_key
