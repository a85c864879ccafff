"""Single values between their form in a handler and their form in a message.

Handlers keep timestamps as text (ISO 8601) and blobs as bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any


def from_text(shape: Any, text: str) -> Any:
    """The value that a text stands for; the text itself where it stands for none.

    The check against the model refuses that, in the service's own words.
    """
    read = _READERS.get(shape.type_name)
    try:
        return text if read is None else read(text)
    except (ValueError, KeyError):
        return text


def to_text(shape: Any, value: Any) -> str:
    """As query strings and XML have it."""
    match shape.type_name:
        case "boolean":
            return "true" if value else "false"
        case "blob":
            return base64.b64encode(value).decode()
        case "float" | "double":
            # Python writes inf and nan, which no other language reads.
            return json.dumps(value)
        case _:
            return str(value)


def from_json(shape: Any, value: Any) -> Any:
    match shape.type_name, value:
        case "timestamp", int() | float() if not isinstance(value, bool):
            return iso(datetime.fromtimestamp(value, UTC))
        case "blob", str():
            return from_text(shape, value)
        case _:
            return value


def to_json(shape: Any, value: Any) -> Any:
    match shape.type_name:
        case "timestamp":
            return datetime.fromisoformat(value).timestamp()
        case "blob":
            return to_text(shape, value)
        case _:
            return value


def iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _blob(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as e:
        raise ValueError(str(e)) from e


_READERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": {"true": True, "false": False}.__getitem__,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "blob": _blob,
}
