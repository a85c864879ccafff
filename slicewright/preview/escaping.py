"""Text in Markdown that stays what it is."""

from __future__ import annotations

from telemetry.plain import plain


def code(text: str) -> str:
    """As code, in a table too: no character of it is Markdown."""
    shown = plain(text).replace("|", "\\|")
    fence = "``" if "`" in shown else "`"
    pad = " " if "`" in shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def text(text: str) -> str:
    """As text that Markdown and HTML leave as it is."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|~#@" else c for c in escaped)


def many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
