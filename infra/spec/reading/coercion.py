"""Values of the wrong type whose intention is clear: "3", 200GB, yes, one zone for a list."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from infra.spec.reading.annotations import constraints_of, example, keys_of
from infra.spec.reading.formatting import flow_style
from infra.spec.schema.constraints import ConstraintError, DnsLabel, FreeText, IntRange, Pattern

_STRING, _INTEGER, _BOOLEAN, _LIST, _MAPPING = (
    "a string",
    "an integer",
    "true or false",
    "a list",
    "a mapping",
)
EXPECTED_TYPES: Mapping[str, str] = {
    "string_type": _STRING,
    "int_type": _INTEGER,
    "int_from_float": _INTEGER,
    "bool_type": _BOOLEAN,
    "tuple_type": _LIST,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "mapping_type": _MAPPING,
    "dict_type": _MAPPING,
}
"""pydantic's error type -> what the value is not."""
_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("yes", "on", "y", "true", "enabled"), True),
    **dict.fromkeys(("no", "off", "n", "false", "disabled"), False),
}
_Coerced = tuple[Any, str]
"""The intended value, None if unclear; and the remedy."""


def coerce(expected: str, found: Any, wanted: Any, as_written: str | None) -> _Coerced:
    """The intended value, None if unclear; and the remedy.

    expected: of `EXPECTED_TYPES`. wanted: the value's type annotation. as_written: a scalar's text
    in the file.
    """
    match expected:
        case "a string":
            return _to_string(found, wanted, as_written)
        case "an integer":
            return _to_integer(found, wanted)
        case "true or false":
            return _to_boolean(found)
        case "a list":
            return _to_list(found, example(wanted))
        case _:
            return _to_mapping(found, wanted)


def _to_string(found: Any, wanted: Any, as_written: str | None) -> _Coerced:
    # As it stands in the file: YAML reads 1.30 as 1.3.
    text = as_written or json.dumps(found)
    if isinstance(found, bool | int | float) and _is_valid(text, wanted):
        return text, f'write it in quotes: "{text}"'
    if isinstance(found, list) and len(found) == 1:
        item = found[0]
        if isinstance(item, str) and _is_valid(item, wanted):
            return item, f"write it without brackets: {item}"
    return None, f"write a string, for example {example(wanted)}"


def _to_integer(found: Any, wanted: Any) -> _Coerced:
    # "3", 3.0, and 200GB for a key in GB.
    match = re.fullmatch(r"([0-9]{1,18})(?:\.0+)?(\s?[A-Za-z]+)?", str(found))
    if match and not isinstance(found, bool) and _is_valid(int(match[1]), wanted):
        number = int(match[1])
        if match[0] == match[1]:
            return number, f"write it without quotes: {number}"
        return number, f"write it without a unit: {number}" if match[2] else f"write {number}"
    constraint = next(constraints_of(wanted, IntRange), None)
    return None, constraint.instead if constraint else f"for example {flow_style(example(wanted))}"


def _to_boolean(found: Any) -> _Coerced:
    value = _BOOLEANS.get(found.casefold()) if isinstance(found, str) else None
    return value, "write true or false" if value is None else f"write {json.dumps(value)}"


def _to_list(found: Any, sample: Any) -> _Coerced:
    if type(found) is not type(sample[0]):
        return None, f"write a list, for example {flow_style(sample)}"
    text = flow_style([found])
    if len(text) <= 60:
        return [found], f"write it as a list: {text}"
    return [found], "write it as a list: '- ' before its first key"


def _to_mapping(found: Any, wanted: Any) -> _Coerced:
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):
        return found[0], "write its keys without '-' before them"
    keys, sample = keys_of(wanted), example(wanted)
    # {count: 3} for 3, if only one key has this type and no other is required.
    fitting = [
        key for key in keys if type(found) is type(example(keys[key])) and sample.keys() <= {key}
    ]
    if len(fitting) == 1:
        value = {fitting[0]: found}
        return value, f"write {flow_style(value)}"
    if sample:
        return None, f"write its keys below it, for example {flow_style(sample)}"
    return None, f"its keys are {', '.join(keys)}"


def _is_valid(value: Any, wanted: Any) -> bool:
    """Whether a value of the right type meets the constraints. A number is not taken for a name."""
    for constraint in constraints_of(wanted, IntRange, Pattern, DnsLabel):
        try:
            constraint.check(value)
        except ConstraintError:
            return False
        if isinstance(constraint, FreeText):
            return isinstance(value, str) and not value.replace(".", "").isdecimal()
    return True
