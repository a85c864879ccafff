"""Reads the output of `pulumi stack export`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from slicewright.processes.foreign_json import NotReadable, read_object

_EXPECTED: Final = "the state of a stack"


def read_state(output: bytes) -> dict[str, Any]:
    """Returns the export, whose resources have the types that this project reads.

    Raises NotReadable.
    """
    export = read_object(output, _EXPECTED)
    deployment = export.get("deployment")
    if not isinstance(deployment, dict):
        raise _misfit("deployment", "an object")
    for number, resource in enumerate(_objects(deployment, "resources")):
        _check_resource(resource, f"deployment.resources[{number}]")
    for number, operation in enumerate(_objects(deployment, "pending_operations")):
        place = f"deployment.pending_operations[{number}]"
        if not isinstance(operation.get("type"), str):
            raise _misfit(f"{place}.type", "text")
        if not isinstance(operation.get("resource"), dict):
            raise _misfit(f"{place}.resource", "an object")
        _check_resource(operation["resource"], f"{place}.resource")
    return export


def _objects(parent: dict[str, Any], key: str) -> Sequence[dict[str, Any]]:
    values = parent.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise _misfit(f"deployment.{key}", "a list of objects")
    return values


def _check_resource(resource: dict[str, Any], place: str) -> None:
    for key in ("urn", "type"):
        if not isinstance(resource.get(key), str):
            raise _misfit(f"{place}.{key}", "text")
    for key in ("inputs", "outputs"):
        if not isinstance(resource.get(key), dict | None):
            raise _misfit(f"{place}.{key}", "an object")


def _misfit(place: str, must_be: str) -> NotReadable:
    return NotReadable(f"expected {_EXPECTED}, got JSON in which {place} is not {must_be}")
