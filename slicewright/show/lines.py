"""Prints one line of plain text."""

from __future__ import annotations

from rich.console import Console


def print_line(console: Console, text: str, style: str = "") -> None:
    """Prints text as it is: brackets are no markup, and a long line is not folded."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
