"""Checks the shapes of JSON values, and names the first place with another shape. Pure.

An API server checks the types of its own kinds, but checks a custom resource only by the schema
that its cluster happens to have. So readers of a cluster's objects first check the fields they use:
a misfit is one object that is not read, and never an error in the middle of a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from slicewright.fleet_controller.objects.bounds import seconds
from slicewright.telemetry.plain import shortened

Shape = Callable[[Any, str], None]
"""Checks a value at a place such as `spec.taints[0]`. Raises Misfit."""

_LONGEST_NAME: Final = 253
_LONGEST_KEY: Final = 253 + 1 + 63
"""The limit for a label's key. Source: k8s.io/apimachinery, pkg/util/validation
(IsQualifiedName).
"""
_LONGEST_LABEL: Final = 63
_MOST: Final = 2**31 - 1
_DEEPEST: Final = 64
_LONGEST_QUOTE: Final = 40
_PERCENTAGE: Final = re.compile("[0-9]{1,3}%")


class Misfit(ValueError):
    """A value has another shape. The message names its place, the required shape, and the value."""


def text(value: Any, at: str) -> None:
    """Any text. Before it is shown, it must be made plain and short."""
    if not isinstance(value, str):
        raise _misfit(value, at, "must be text")


def name(value: Any, at: str) -> None:
    """The name of an object, in the form that a path allows. Source: k8s.io/apimachinery,
    pkg/api/validation/path (IsValidPathSegmentName).
    """
    _short(value, at, _LONGEST_NAME, "must be a name")
    if value in ("", ".", "..") or "/" in value or "%" in value:
        raise _misfit(value, at, "must be a name")


def word(value: Any, at: str) -> None:
    """A short word that is compared and shown unchanged. It may be empty."""
    _short(value, at, _LONGEST_NAME, "must be a word")


def label(value: Any, at: str) -> None:
    _short(value, at, _LONGEST_LABEL, "must be the value of a label")


def number(value: Any, at: str) -> None:
    """A whole number that is not negative. JSON's true and false are not numbers."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise _misfit(value, at, "must be a whole number")


def generation(value: Any, at: str) -> None:
    """A `number`, or -1 for "not yet observed"."""
    if value != -1 or isinstance(value, bool):
        number(value, at)


def truth(value: Any, at: str) -> None:
    if not isinstance(value, bool):
        raise _misfit(value, at, "must be true or false")


def time(value: Any, at: str) -> None:
    """A timestamp that the fleet controller also reads. Null: the timestamp is not set."""
    if value is not None:
        moment(value, at)


def moment(value: Any, at: str) -> None:
    """A `time` that is not null."""
    text(value, at)
    must = "must be a time such as 2026-11-27T00:00:00Z, of the years 1970 to 2099"
    if not value:
        raise _misfit(value, at, must)
    try:
        seconds(value)
    except ValueError:
        raise _misfit(value, at, must) from None


def number_or_percentage(value: Any, at: str) -> None:
    if not (isinstance(value, str) and _PERCENTAGE.fullmatch(value)):
        number(value, at)


def quantity(value: Any, at: str) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _misfit(value, at, "must be a quantity")


def among(*words: str) -> Shape:
    def check(value: Any, at: str) -> None:
        if value not in words:
            raise _misfit(value, at, f"must be {', '.join(words[:-1])} or {words[-1]}")

    return check


def nullable(shape: Shape) -> Shape:
    def check(value: Any, at: str) -> None:
        if value is not None:
            shape(value, at)

    return check


def items(shape: Shape) -> Shape:
    """A list of such values without nulls. The list itself may be null."""

    def check(value: Any, at: str) -> None:
        if not isinstance(value, list | None):
            raise _misfit(value, at, "must be a list")
        for place, element in enumerate(value or ()):
            _require_value(element, f"{at}[{place}]")
            shape(element, f"{at}[{place}]")

    return check


def table(shape: Shape, *, key: Shape = text) -> Shape:
    """An object whose keys are data, such as labels. The object itself may be null."""

    def check(value: Any, at: str) -> None:
        if not isinstance(value, dict | None):
            raise _misfit(value, at, "must be an object")
        for entry, content in (value or {}).items():
            key(entry, f"{at}: the key {_quoted(entry)}")
            _require_value(content, f"{at}[{_quoted(entry)}]")
            shape(content, f"{at}[{_quoted(entry)}]")

    return check


def fields(required: Mapping[str, Shape] | None = None, **optional: Shape) -> Shape:
    """An object with these fields and any others. It may be null itself if it is optional."""
    needed = required or {}

    def check(value: Any, at: str) -> None:
        if not isinstance(value, dict | None):
            raise _misfit(value, at, "must be an object")
        present, prefix = value or {}, f"{at}." if at else ""
        for key, shape in needed.items():
            if present.get(key) is None:
                raise Misfit(f"{prefix}{key} is missing")
            shape(present[key], prefix + key)
        for key, shape in optional.items():
            if key in present:
                shape(present[key], prefix + key)

    return check


def _require_value(value: Any, at: str) -> None:
    if value is None:
        raise Misfit(f"{at} is null")


def shallow(value: Any, at: str) -> None:
    """Any value that is not nested too deeply to be walked through."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level:
        if depth > _DEEPEST:
            raise Misfit(f"{at or 'it'} is nested more than {_DEEPEST} levels deep")
        inner = (
            container.values() if isinstance(container, dict) else container for container in level
        )
        level = [
            child for children in inner for child in children if isinstance(child, dict | list)
        ]
        depth += 1


def combined(*shapes: Shape) -> Shape:
    """A value that has all of these shapes."""

    def check(value: Any, at: str) -> None:
        for shape in shapes:
            shape(value, at)

    return check


def labels() -> Shape:
    return table(label, key=_key)


def _key(value: Any, at: str) -> None:
    _short(value, at, _LONGEST_KEY, "must be the key of a label")


def _short(value: Any, at: str, longest: int, must: str) -> None:
    text(value, at)
    if len(value) > longest or not value.isprintable():
        raise _misfit(value, at, f"{must} of at most {longest} printable characters")


def _misfit(value: Any, at: str, must: str) -> Misfit:
    return Misfit(f"{at or 'it'} {must}, is {_describe(value)}")


def _describe(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"{_quoted(value)}" + (
                f" of {len(value)} characters" if len(value) > _LONGEST_QUOTE else ""
            )
        case int() | float():
            return shortened(_digits(value), _LONGEST_QUOTE)
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "no value of JSON"


def _digits(value: int | float) -> str:
    try:
        return str(value)
    except ValueError:
        # Python refuses to write a number with thousands of digits.
        return "a very large number"


def _quoted(value: object) -> str:
    return f"'{shortened(str(value), _LONGEST_QUOTE)}'"
