"""Escapes text for Markdown."""

from __future__ import annotations

from slicewright.telemetry.plain import plain


def code(text: str) -> str:
    """Returns the text as code, even in a table: no character of it is read as Markdown."""
    escaped = plain(text).replace("|", "\\|")
    fence = "``" if "`" in escaped else "`"
    pad = " " if "`" in escaped else ""
    return f"{fence}{pad}{escaped}{pad}{fence}"


def text(text: str) -> str:
    """Returns the text escaped, so that Markdown and HTML show it unchanged."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|~#@" else c for c in escaped)


def many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
