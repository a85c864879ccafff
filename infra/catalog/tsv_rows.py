"""Reads tab-separated tables of the catalog.

Lines with `#` are comments. The first other line names the columns.
"""

from __future__ import annotations

from pathlib import Path

from slicewright.infra.catalog.catalog_error import CatalogError


def read_rows(directory: Path, name: str, *, columns: int) -> list[list[str]]:
    """The rows of a table. Raises CatalogError for a row with other than `columns` fields."""
    lines = (directory / name).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    if wrong := next((row for row in rows if len(row) != columns), None):
        raise CatalogError(f"catalog: {name}: {wrong} does not have {columns} fields")
    return rows[1:]
