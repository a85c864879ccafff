"""Bounds on times and texts that others write into objects. Pure.

A kubelet, an agent or a tenant can write the year 9999, a lone surrogate or 200 kB of text into any
string field of Kubernetes. Reading an object refuses times beyond the bounds and cuts texts, so
that no decision and no status has to expect them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from slicewright.telemetry.plain import plain

EPOCH_S: Final = 0.0
LATEST_S: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
"""Later times are mistakes or attacks. A clock that was never set shows 1970, which is readable."""
LONGEST_TEXT: Final = 1024
"""Longest message, in characters. The API server allows as many in the note of an Event. Source:
k8s.io/kubernetes, pkg/apis/core/validation/events.go (NoteLengthLimit).
"""
LONGEST_CONDITION: Final = 4096
"""Longest message of a node's condition, in characters. It quotes several texts."""
LONGEST_NAME: Final = 253
"""Longest name, reason or version, in characters. Source: RFC 1123 subdomain, as in Kubernetes."""
LONGEST_NOTE: Final = 16 * 1024
"""Longest annotation that the controller parses, in characters. It writes a tenth of that."""

_CAMEL_CASE: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")

UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Every exception that reading an odd object may raise."""


def seconds(timestamp: str | None) -> float:
    """Returns an RFC 3339 timestamp as seconds since the epoch, or 0 without a timestamp.

    Raises TypeError for anything but a string, and ValueError for any other text, for a time
    without a zone, and for times before the epoch or after the year 2099.
    """
    if not timestamp:
        return EPOCH_S
    if not isinstance(timestamp, str):
        raise TypeError(f"is not a timestamp: {type(timestamp).__name__}")
    # RFC 3339 allows lower case, but Python's parser does not.
    parsed = datetime.fromisoformat(timestamp.upper())
    if parsed.tzinfo is None:
        raise ValueError(f"is a timestamp without a time zone: {plain(timestamp)[:40]}")
    try:
        at = parsed.timestamp()
    except OverflowError:
        at = -1.0
    if not EPOCH_S <= at < LATEST_S:
        raise ValueError(f"is not a plausible time: {plain(timestamp)[:40]}")
    return at


def seconds_or_epoch(timestamp: str | None) -> float:
    """Returns the time, or 0 if it cannot be parsed."""
    try:
        return seconds(timestamp)
    except UNREADABLE:
        return EPOCH_S


# The conditions of hundreds of pools have the same few times, and get them in each pass.
@lru_cache(maxsize=1024)
def stamp(at: float) -> str:
    """Returns an RFC 3339 timestamp in whole seconds, limited to the bounds."""
    bounded = min(max(at, EPOCH_S), LATEST_S)
    return datetime.fromtimestamp(bounded, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def text(value: object, longest: int = LONGEST_TEXT) -> str:
    """Returns the text in printable characters, cut to `longest`, or an empty text for None.

    Raises TypeError for anything but a string: an object has no text in the place of a list.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"is not a string: {type(value).__name__}")
    # Cut twice: an escape is longer than its character.
    return plain(value[:longest])[:longest]


def texts(value: object) -> dict[str, str]:
    """Returns a mapping of texts to texts, such as labels, or an empty one for None.

    Raises TypeError for anything else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(
        isinstance(key, str) and isinstance(each, str) for key, each in value.items()
    ):
        raise TypeError("is not a mapping of strings to strings")
    return dict(value)


def name(metadata: Mapping[str, Any]) -> str:
    """Returns the name of an object. Raises KeyError, TypeError or ValueError if it has none."""
    value = metadata["name"]
    if not value or text(value, LONGEST_NAME) != value:
        raise ValueError("has no valid name")
    return str(value)


def reason(value: object) -> str:
    """Returns a machine-readable reason, or an empty text for None.

    Raises TypeError for anything but a string, and ValueError for text that the status of a pool
    could not hold (`slicewright.apis.openapi.CAMEL_CASE`).
    """
    code = text(value)
    if code and not _CAMEL_CASE.fullmatch(code):
        raise ValueError(f"is not a CamelCase reason: {code[:40]}")
    return code


def identifier(value: object) -> str:
    """Returns an identifier that is compared and never shown, such as a boot ID. Empty for None.

    Equal identifiers stay equal and different ones stay different at any length: long ones are
    replaced by their SHA-256. Raises TypeError for anything but a string.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"is not a string: {type(value).__name__}")
    if len(value) <= LONGEST_NAME and value.isprintable():
        return value
    return "sha256:" + hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()


def note(value: str | None) -> str:
    """Returns an annotation that is to be parsed, cut to the longest that the controller may write.

    Returns an empty text for None. A cut annotation can hardly be parsed, but can still be named
    and removed.
    """
    return value[:LONGEST_NOTE] if isinstance(value, str) else ""
