"""The parts of an OpenAPI v3 schema, in the form that Kubernetes takes."""

from __future__ import annotations

from typing import Any

from slicewright.apis.names import Manifest


def object_of(
    description: str, properties: Manifest, *, required: tuple[str, ...] = (), **more: Any
) -> Manifest:
    schema: Manifest = {
        "type": "object",
        "description": description,
        "properties": properties,
        **more,
    }
    if required:
        schema["required"] = list(required)
    return schema


def text(description: str, **more: Any) -> Manifest:
    return {"type": "string", "description": description, **more}


def count(description: str) -> Manifest:
    return {"type": "integer", "format": "int32", "minimum": 0, "description": description}


def generation(description: str) -> Manifest:
    return {"type": "integer", "format": "int64", "description": description}


CAMEL_CASE: Manifest = {"pattern": "^[A-Z][A-Za-z0-9]*$", "maxLength": 64}
