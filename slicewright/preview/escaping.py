"""Escapes text for Markdown."""

from __future__ import annotations

from telemetry.plain import plain


def code(text: str) -> str:
    """Returns the text as code, even in a table: no character of it is read as Markdown."""
    shown = plain(text).replace("|", "\\|")
    fence = "``" if "`" in shown else "`"
    pad = " " if "`" in shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def text(text: str) -> str:
    """Returns the text escaped, so that Markdown and HTML show it unchanged."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|~#@" else c for c in escaped)


def many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
