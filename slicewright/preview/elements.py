"""Blocks of Markdown whose text is already escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ROWS: Final = 40
"""The limit of rows in each table of a report. The worst rows come first."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, at_most: int) -> str:
    lines = [header, ["---"] * len(header), *rows[:at_most]]
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return body + (f"\n\n*and {len(rows) - at_most} more*" if len(rows) > at_most else "")


def fenced(lines: Sequence[str]) -> str:
    """Returns a block whose text cannot end the block."""
    longest = max((_leading_ticks(line) for line in lines), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((fence, *lines, fence))


def _leading_ticks(line: str) -> int:
    bare = line.lstrip()
    return len(bare) - len(bare.lstrip("`"))
