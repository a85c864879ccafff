"""Formats paths and values for messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from slicewright.infra.stack_file.problem import KEY, Path

_KEY_LENGTH = 60
"""Characters shown of a key or value: enough to find it."""


def plain(text: str) -> str:
    """The text with characters that are not printable as escapes: `\\x1b`, `\\u202e`, `\\n`.

    A terminal would obey them, and bidirectional overrides make text look like other text
    (CVE-2021-42574).
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(text: str, length: int) -> str:
    """The text, cut to at most `length` characters."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def format_path(path: Path) -> str:
    """A path such as `node_pools[0].partition.profile`. Keys that are not words are quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = shorten(step, _KEY_LENGTH)
            key = key if re.fullmatch(r"[A-Za-z_][\w-]*", key) else json.dumps(key)
            text += f".{key}" if text else key
    return text or KEY


def format_value(value: Any) -> str:
    """A value as JSON, shortened to 60 characters."""
    return shorten(json.dumps(value, default=str, ensure_ascii=False), _KEY_LENGTH)


def flow_style(value: Any) -> str:
    """A value as YAML on one line: `{count: 1}`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow_style(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow_style, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def comma_separated(names: Iterable[str]) -> str:
    return ", ".join(name or '""' for name in names)


def describe(value: Any) -> str:
    """A description of the value to follow `is`: `a list of 2 items`."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {json.dumps(shorten(value, 40), ensure_ascii=False)}"
        case list():
            return f"a list of {len(value)} item{'' if len(value) == 1 else 's'}"
        case _:
            return "a mapping"
