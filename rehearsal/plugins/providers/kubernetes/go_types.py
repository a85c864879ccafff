"""Built-in kinds as Kubernetes' Go types read and write them; types_table/ generates the table."""

from __future__ import annotations

import base64
import binascii
import json
from functools import cache
from importlib import resources
from typing import Any, Literal

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.providers.kubernetes.quantities import canonical

Scope = Literal["namespaced", "cluster"]


class Unconvertible(Exception):
    """The value does not fit the type, such as a string in a number's place."""


@cache
def _table() -> JsonObject:
    text = (
        resources.files("slicewright.rehearsal.plugins.providers.kubernetes")
        .joinpath("types.json")
        .read_text()
    )
    table: JsonObject = json.loads(text)
    return table


def scope_of(api_version: str, kind: str) -> Scope | None:
    """The kind's scope; None if it is not in the table."""
    entry = _table()["kinds"].get(f"{api_version}/{kind}")
    return entry[1] if entry else None


def is_known(api_version: str, kind: str) -> bool:
    """Whether the kind is in the table."""
    return f"{api_version}/{kind}" in _table()["kinds"]


def round_trip(api_version: str, kind: str, value: JsonObject) -> JsonObject:
    """The object after being decoded into its Go type and encoded again, with no key added.

    Unknown fields and empty omitempty fields are dropped (pointers to empty values stay);
    quantities are canonical. Raises Unconvertible.
    """
    written: JsonObject = _write(_table()["kinds"][f"{api_version}/{kind}"][0], value)
    return written


def _write(type_name: str, value: Any) -> Any:
    if type_name == "any":
        return value
    if type_name.startswith("[]"):
        return [_write(type_name[2:], item) for item in _expect(list, value, type_name)]
    if type_name.startswith("{}"):
        return {
            key: _write(type_name[2:], item)
            for key, item in _expect(dict, value, type_name).items()
        }
    if type_name in _SCALARS:
        return _scalar(type_name, value)
    if type_name == "schema-or-other":
        if isinstance(value, list):
            return [_write(type_name, item) for item in value]
        return _write("apiextensions.JSONSchemaProps", value) if isinstance(value, dict) else value
    return _write_struct(type_name, _expect(dict, value, type_name))


def _write_struct(type_name: str, value: JsonObject) -> JsonObject:
    fields: dict[str, tuple[str, str]] = _table()["types"][type_name]
    written = {}
    for key, item in value.items():
        if key not in fields or item is None:
            continue
        field_type, flags = fields[key]
        field_value = _write(field_type, item)
        if "p" not in flags and _is_omitted(field_value, field_type, flags):
            continue
        written[key] = field_value
    return written


def _is_omitted(value: Any, type_name: str, flags: str) -> bool:
    # encoding/json's omitempty never drops a struct, its omitzero does.
    if isinstance(value, dict) and not type_name.startswith("{}") and type_name != "any":
        return "z" in flags and not value
    if type_name in ("quantity", "int-or-string"):
        return False
    return "o" in flags and not value


_SCALARS = frozenset(
    {"string", "bool", "int", "float", "bytes", "quantity", "int-or-string", "time"}
)


def _scalar(type_name: str, value: Any) -> Any:
    match type_name:
        case "string" | "time":
            return _expect(str, value, type_name)
        case "bool":
            return _expect(bool, value, type_name)
        case "int":
            if isinstance(value, float) and value.is_integer():
                return int(value)
            return _expect(int, value, type_name)
        case "float":
            return value if isinstance(value, float) else _expect(int, value, type_name)
        case "bytes":
            try:
                return base64.b64encode(
                    base64.b64decode(_expect(str, value, type_name), validate=True)
                ).decode()
            except binascii.Error as e:
                raise Unconvertible(str(e)) from e
        case "quantity":
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise Unconvertible(f"{value!r} is not a quantity")
            try:
                return canonical(value)
            except ValueError as e:
                raise Unconvertible(str(e)) from e
        case _:
            return value if isinstance(value, str) else _expect(int, value, type_name)


def _expect(expected: type, value: Any, type_name: str) -> Any:
    # In Python a bool is an int; in Go it is not.
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise Unconvertible(f"{value!r} is not of type {type_name}")
    return value
