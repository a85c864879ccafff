"""Plain data as text, the same text for equal data."""

from __future__ import annotations

import hashlib
from typing import Any

import yaml

JsonObject = dict[str, Any]


def as_yaml(data: JsonObject) -> str:
    """YAML with sorted keys, so that equal data gives equal text."""
    return yaml.safe_dump(data, sort_keys=True, default_flow_style=False, width=120)


def as_flow_yaml(data: JsonObject) -> str:
    """YAML in the given order, with innermost collections on one line."""
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=1_000)


def short_hash(text: str) -> str:
    """Eight hexadecimal digits, for names that must change with their content."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
