"""Values of a wrong type but with a clear intention: "3", 200GB, yes, a zone for a list."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from slicewright.infra.stack_file.reading.annotations import (
    constraints_of,
    example,
    example_list,
    keys_of,
)
from slicewright.infra.stack_file.reading.formatting import flow_style
from slicewright.infra.stack_file.schema.constraints import (
    ConstraintError,
    DnsLabel,
    FreeText,
    IntRange,
    Pattern,
)

_STRING, _INTEGER, _NUMBER, _BOOLEAN, _LIST, _MAPPING = (
    "a string",
    "an integer",
    "a number",
    "true or false",
    "a list",
    "a mapping",
)
EXPECTED_TYPES: Mapping[str, str] = {
    "string_type": _STRING,
    "int_type": _INTEGER,
    "int_from_float": _INTEGER,
    "float_type": _NUMBER,
    "bool_type": _BOOLEAN,
    "tuple_type": _LIST,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "mapping_type": _MAPPING,
    "dict_type": _MAPPING,
}
"""pydantic's error type -> the expected type."""
_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("yes", "on", "y", "true", "enabled"), True),
    **dict.fromkeys(("no", "off", "n", "false", "disabled"), False),
}
_Coerced = tuple[Any, str]
"""The intended value, None if unclear, and the remedy."""


def coerce(expected: str, actual: Any, annotation: Any, as_written: str | None) -> _Coerced:
    """The intended value, None if unclear, and the remedy.

    expected: a value of `EXPECTED_TYPES`. as_written: a scalar's text in the file.
    """
    match expected:
        case "a string":
            return _coerce_to_string(actual, annotation, as_written)
        case "an integer":
            return _coerce_to_integer(actual, annotation)
        case "a number":
            return _coerce_to_number(actual, annotation)
        case "true or false":
            return _coerce_to_boolean(actual)
        case "a list":
            return _coerce_to_list(actual, example_list(annotation))
        case _:
            return _coerce_to_mapping(actual, annotation)


def _coerce_to_string(actual: Any, annotation: Any, as_written: str | None) -> _Coerced:
    # The text in the file, because YAML reads 1.30 as 1.3.
    text = as_written or json.dumps(actual)
    if isinstance(actual, bool | int | float) and _is_valid(text, annotation):
        return text, f'write it in quotes: "{text}"'
    if isinstance(actual, list) and len(actual) == 1:
        item = actual[0]
        if isinstance(item, str) and _is_valid(item, annotation):
            return item, f"write it without brackets: {item}"
    return None, f"write a string, for example {example(annotation)}"


def _coerce_to_integer(actual: Any, annotation: Any) -> _Coerced:
    # "3", 3.0, and 200GB for a key in GB.
    match = re.fullmatch(r"([0-9]{1,18})(?:\.0+)?(\s?[A-Za-z]+)?", str(actual))
    if match and not isinstance(actual, bool) and _is_valid(int(match[1]), annotation):
        number = int(match[1])
        if match[0] == match[1]:
            return number, f"write it without quotes: {number}"
        return number, f"write it without a unit: {number}" if match[2] else f"write {number}"
    constraint = next(constraints_of(annotation, IntRange), None)
    return (
        None,
        constraint.instead if constraint else f"for example {flow_style(example(annotation))}",
    )


def _coerce_to_number(actual: Any, annotation: Any) -> _Coerced:
    # "12.5", and 40 ms for a key in milliseconds.
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(\s?[A-Za-z/]+)?", str(actual))
    if match and not isinstance(actual, bool) and _is_valid(float(match[1]), annotation):
        unit = "a unit" if match[2] else "quotes"
        return float(match[1]), f"write it without {unit}: {match[1]}"
    return None, f"for example {flow_style(example(annotation))}"


def _coerce_to_boolean(actual: Any) -> _Coerced:
    value = _BOOLEANS.get(actual.casefold()) if isinstance(actual, str) else None
    return value, "write true or false" if value is None else f"write {json.dumps(value)}"


def _coerce_to_list(actual: Any, sample: Any) -> _Coerced:
    if type(actual) is not type(sample[0]):
        return None, f"write a list, for example {flow_style(sample)}"
    text = flow_style([actual])
    if len(text) <= 60:
        return [actual], f"write it as a list: {text}"
    return [actual], "write it as a list: '- ' before its first key"


def _coerce_to_mapping(actual: Any, annotation: Any) -> _Coerced:
    if isinstance(actual, list) and len(actual) == 1 and isinstance(actual[0], dict):
        return actual[0], "write its keys without '-' before them"
    keys, sample = keys_of(annotation), example(annotation)
    # {count: 3} for 3, if only one key has this type and no other is required.
    fitting = [
        key for key in keys if type(actual) is type(example(keys[key])) and sample.keys() <= {key}
    ]
    if len(fitting) == 1:
        value = {fitting[0]: actual}
        return value, f"write {flow_style(value)}"
    if sample:
        return None, f"write its keys below it, for example {flow_style(sample)}"
    return None, f"its keys are {', '.join(keys)}"


def _is_valid(value: Any, annotation: Any) -> bool:
    """True if a value of the right type meets the constraints. A number is not a valid name."""
    for constraint in constraints_of(annotation, IntRange, Pattern, DnsLabel):
        try:
            constraint.check(value)
        except ConstraintError:
            return False
        if isinstance(constraint, FreeText):
            return isinstance(value, str) and not value.replace(".", "").isdecimal()
    return True
