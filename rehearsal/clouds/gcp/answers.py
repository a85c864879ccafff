"""Validates answers of the simulated Google Cloud against Google's discovery documents.

An answer with a field that the API lacks, or a value of another type, would teach the program under
rehearsal something untrue: it is a bug of the rehearsal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from slicewright.rehearsal.clouds.gcp.models import document, find_method

# Protobuf's JSON mapping writes these as strings; JavaScript's numbers would lose digits.
_LONG = frozenset({"int64", "uint64"})
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
}


def answer_errors(service: str, method: str, answer: Any) -> list[str]:
    """What of the answer the API's response schema does not allow; empty = nothing."""
    reference = find_method(service, method).get("response", {}).get("$ref")
    if reference is None:
        return [f"{method} answers nothing, got {answer!r}"] if answer else []
    schemas = document(service)["schemas"]
    return list(_errors(schemas, schemas[reference], answer, reference))


def _errors(
    schemas: Mapping[str, Any], schema: Mapping[str, Any], value: Any, path: str
) -> Iterator[str]:
    if "$ref" in schema:
        yield from _errors(schemas, schemas[schema["$ref"]], value, path)
        return
    kind = schema.get("type", "any")
    if kind == "any":
        return
    if kind == "object":
        yield from _object_errors(schemas, schema, value, path)
    elif kind == "array":
        if not isinstance(value, list):
            yield f"{path}: {value!r} is not a list"
            return
        for index, item in enumerate(value):
            yield from _errors(schemas, schema["items"], item, f"{path}[{index}]")
    elif not _is_scalar(schema, kind, value):
        yield f"{path}: {value!r} is not a {schema.get('format', kind)}" + (
            " in a string" if schema.get("format") in _LONG else ""
        )
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(schema['enum'])}"


def _object_errors(
    schemas: Mapping[str, Any], schema: Mapping[str, Any], value: Any, path: str
) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is not an object"
        return
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        member = properties.get(name, extra)
        if member is None:
            yield f"{path}: the API has no field {name}"
        else:
            yield from _errors(schemas, member, item, f"{path}.{name}")


def _is_scalar(schema: Mapping[str, Any], kind: str, value: Any) -> bool:
    if schema.get("format") in _LONG:
        return isinstance(value, str) and re.fullmatch(r"-?\d+", value) is not None
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _PYTHON[kind])
