"""The meaning of a plain scalar of a stack file in the YAML library of the Pulumi engine.

The engine reads stack files with go-yaml v3, and passes the values on as JSON. Source: go-yaml v3,
`resolve.go`; compared with the engine itself by tests/rehearsal/plugins/engine/test_stack_file.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

Value = str | int | float | bool | None


class Kind(Enum):
    """The engine's interpretation of the text."""

    STRING = "string"
    VALUE = "value"
    """A number, boolean or null with a clear meaning."""
    MERGE = "merge"
    """The key `<<`."""
    NOTATION = "notation"
    """A number that is not written in decimal, or with underscores."""
    LEADING_ZERO = "leading zero"
    TIMESTAMP = "timestamp"
    NO_NUMBER = "no number"
    """Infinity, not-a-number, or too large to be exact in the engine's JSON."""


@dataclass(frozen=True)
class Scalar:
    kind: Kind
    value: Value = None
    """The value that the engine passes on, None for a timestamp or if it cannot pass it on."""


_WORDS: dict[str, Scalar] = {
    **{word: Scalar(Kind.VALUE, True) for word in ("true", "True", "TRUE")},
    **{word: Scalar(Kind.VALUE, False) for word in ("false", "False", "FALSE")},
    **{word: Scalar(Kind.VALUE, None) for word in ("", "~", "null", "Null", "NULL")},
    **{
        sign + word: Scalar(Kind.NO_NUMBER)
        for word in (".inf", ".Inf", ".INF")
        for sign in ("", "+", "-")
    },
    **{word: Scalar(Kind.NO_NUMBER) for word in (".nan", ".NaN", ".NAN")},
    "<<": Scalar(Kind.MERGE),
}
_STARTS_NUMBER = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_OTHER_BASE = re.compile(r"[-+]?0(?:[xX][0-9a-fA-F]+|[bB][01]+|[oO][0-7]+)")
# Matches 0b-1: the library accepts a sign within the number.
_INNER_SIGN = re.compile(r"0(?:b[-+][01]+|o[-+][0-7]+)")
_DOTTED = re.compile(r"\.[0-9]+(?:_[0-9]+)+(?:[eE][-+]?[0-9]+)?")
# The day and the month are not checked: text like a date should be quoted in any case.
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
_MAX_DIGITS = 4000
"""Python converts no more than 4,300 digits."""
_EXACT = 2**53
"""The largest exact integer of a 64-bit float, the engine's type for numbers."""


@lru_cache(maxsize=16384)  # keys, names of machine types and zones are the same in every pool
def resolve(text: str) -> Scalar:
    """The meaning of a plain (unquoted, untagged) scalar with this text."""
    word = _WORDS.get(text)
    if word is not None:
        return word
    if text[0] not in _STARTS_NUMBER:
        return Scalar(Kind.STRING, text)
    if _INTEGER.fullmatch(text):
        return _number(text)
    if _LEADING_ZERO.fullmatch(text):
        return Scalar(Kind.LEADING_ZERO)
    if _FLOAT.fullmatch(text):
        return _number(text)
    if _TIMESTAMP.fullmatch(text):
        return Scalar(Kind.TIMESTAMP)
    plain = text.replace("_", "") if text[0] != "." or _DOTTED.fullmatch(text) else ""
    if _INNER_SIGN.fullmatch(plain):
        return Scalar(Kind.NOTATION, int(plain[2:], 2 if plain[1] == "b" else 8))
    if _OTHER_BASE.fullmatch(plain) and len(plain) < _MAX_DIGITS:
        return Scalar(Kind.NOTATION, int(plain, 0))
    if _FLOAT.fullmatch(plain):
        number = _number(plain)
        return Scalar(Kind.NOTATION, number.value) if number.kind is Kind.VALUE else number
    return Scalar(Kind.STRING, text)


def _number(text: str) -> Scalar:
    """A decimal number as in the engine's JSON: 5 for `5.0`, 1e+21 for `1000…`."""
    if len(text) > _MAX_DIGITS:
        return Scalar(Kind.NO_NUMBER)
    if _INTEGER.fullmatch(text):
        integer = int(text)
        return Scalar(Kind.VALUE, integer) if abs(integer) <= _EXACT else Scalar(Kind.NO_NUMBER)
    number = float(text)
    if not math.isfinite(number):
        return Scalar(Kind.NO_NUMBER)
    # Go's encoding/json writes a float without exponent below 1e21.
    integral = number.is_integer() and abs(number) < 1e21
    return Scalar(Kind.VALUE, int(number) if integral else number)


def is_plain_string(text: str) -> bool:
    """True if the text is a string without quotes, too."""
    return resolve(text).kind is Kind.STRING
