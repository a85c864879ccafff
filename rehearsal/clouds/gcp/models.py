"""Validates requests to the simulated Google Cloud against Google's discovery documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from slicewright.rehearsal.clouds.gcp.errors import google_error

DOCUMENTS: Mapping[str, str] = {
    "container": "container.v1",
    "compute": "compute.v1",
    "iam": "iam.v1",
    "cloudresourcemanager": "cloudresourcemanager.v1",
    "serviceusage": "serviceusage.v1",
    "cloudkms": "cloudkms.v1",
    "orgpolicy": "orgpolicy.v2",
}

_INTEGER = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_OUTPUT_ONLY = re.compile(r"^\W*output[ _-]only", re.IGNORECASE)


@cache
def document(service: str) -> dict[str, Any]:
    """The discovery document of one service, as google-api-python-client ships it."""
    import googleapiclient

    directory = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    parsed: dict[str, Any] = json.loads((directory / f"{DOCUMENTS[service]}.json").read_text())
    return parsed


def find_method(service: str, name: str) -> dict[str, Any]:
    """The description of a method such as `projects.locations.clusters.create`.

    Raises CloudError 404 for a method that the API does not have.
    """
    node = document(service)
    *collections, method = name.split(".")
    for collection in collections:
        node = node.get("resources", {}).get(collection, {})
    method_node: dict[str, Any] | None = node.get("methods", {}).get(method)
    if method_node is None:
        raise google_error(404, f"Method not found: {service} has no {name}.")
    return method_node


def validate(service: str, name: str, params: Mapping[str, Any], body: Any) -> None:
    """Raises CloudError 400 with every error of the request, worded as Google words it if known."""
    method = find_method(service, name)
    errors = list(_parameter_errors(method, params))
    reference = method.get("request", {}).get("$ref")
    if reference:
        schemas = document(service)["schemas"]
        errors += _schema_errors(
            schemas, schemas[reference], body if body is not None else {}, "", reference
        )
    elif body:
        errors.append(f"Method {name} takes no request body.")
    if errors:
        raise google_error(400, "\n".join(errors))


def _parameter_errors(method: Mapping[str, Any], params: Mapping[str, Any]) -> Iterator[str]:
    parameters = method.get("parameters", {})
    for name, schema in parameters.items():
        if name not in params:
            if schema.get("required"):
                yield f"Missing required parameter: {name}"
            continue
        for value in params[name] if schema.get("repeated") else [params[name]]:
            yield from _one_parameter_errors(name, schema, value)
    for name in params:
        if name not in parameters:
            yield (
                f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query '
                f"parameter. Field '{name}' could not be found in request message."
            )


def _one_parameter_errors(name: str, schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    wrong = list(_scalar_errors(schema, value, _snake(name), name))
    if wrong:
        yield from wrong
    elif "pattern" in schema and not re.fullmatch(schema["pattern"], str(value)):
        yield (
            f"Invalid value for parameter {name}: {_show(value)} does not match {schema['pattern']}"
        )


def _schema_errors(
    schemas: Mapping[str, Any], schema: Mapping[str, Any], value: Any, path: str, type_name: str
) -> Iterator[str]:
    if "$ref" in schema:
        yield from _schema_errors(schemas, schemas[schema["$ref"]], value, path, schema["$ref"])
        return
    kind = schema.get("type", "any")
    if value is None or kind == "any":
        return
    if kind == "object":
        yield from _object_errors(schemas, schema, value, path, type_name)
    elif kind == "array":
        # Protobuf's JSON mapping accepts a single value for a repeated field; Pulumi's providers
        # never send one, so here it is a mistake.
        if not isinstance(value, list):
            yield _wrong(path, "LIST", value)
            return
        for index, item in enumerate(value):
            yield from _schema_errors(schemas, schema["items"], item, f"{path}[{index}]", type_name)
    else:
        yield from _scalar_errors(schema, value, path, type_name)


def _object_errors(
    schemas: Mapping[str, Any], schema: Mapping[str, Any], value: Any, path: str, type_name: str
) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _wrong(path, type_name, value)
        return
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    for name, item in value.items():
        at = f"{path}.{_snake(name)}" if path else _snake(name)
        if name in properties:
            member = properties[name]
            if _is_output_only(member):
                yield (
                    f"Invalid value at '{at}': the field is output only and cannot be set in a "
                    "request."
                )
            else:
                yield from _schema_errors(
                    schemas, member, item, at, f"{type_name}.{name[:1].upper()}{name[1:]}"
                )
        elif extra is not None:
            yield from _schema_errors(
                schemas, extra, item, f"{path}[{json.dumps(name)}]", type_name
            )
        else:
            where = f" at '{path}'" if path else ""
            yield f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.'


def _scalar_errors(
    schema: Mapping[str, Any], value: Any, path: str, type_name: str
) -> Iterator[str]:
    kind, form = schema["type"], schema.get("format", "")
    if "enum" in schema:
        if value not in schema["enum"]:
            allowed = ", ".join(schema["enum"])
            yield (
                f"Invalid value at '{path}' (type.googleapis.com/{type_name}), {_show(value)}; "
                f"allowed: {allowed}"
            )
    elif form in _INTEGER:
        if not _is_integer(value, *_INTEGER[form]):
            yield _wrong(path, form.upper(), value)
    elif kind == "boolean":
        if not isinstance(value, bool):
            yield _wrong(path, "BOOL", value)
    elif kind in ("number", "integer"):
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield _wrong(path, form.upper() or kind.upper(), value)
    elif kind == "string" and not isinstance(value, str):
        yield _wrong(path, "STRING", value)


def _is_integer(value: Any, low: int, high: int) -> bool:
    """Whether protobuf's JSON mapping reads it as an integer: a number, or one in a string."""
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_output_only(member: Mapping[str, Any]) -> bool:
    return bool(member.get("readOnly")) or bool(_OUTPUT_ONLY.match(member.get("description", "")))


def _wrong(path: str, expected: str, value: Any) -> str:
    return f"Invalid value at '{path}' (TYPE_{expected}), {_show(value)}"


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
