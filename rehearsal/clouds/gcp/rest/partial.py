"""Partial responses: the standard parameter `fields`, as in `items(id,labels/env),nextPageToken`.

Source: the Compute Engine documentation, "Improve performance: partial responses".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.models import document

Mask = Mapping[str, "Mask"]
"""Name of a field -> what of it; an empty mask = all. `*` stands for every name."""

_TOKEN = re.compile(r"[(),/]|[^(),/\s]+")


def parse(text: str) -> Mask:
    """Raises CloudError 400 for text that is not a field mask."""
    tokens = _TOKEN.findall(text)
    mask = _list(tokens, text)
    if tokens or not mask:
        raise _invalid(text)
    return mask


def select(service: str, schema: Mapping[str, Any], mask: Mask, value: Any) -> Any:
    """What the mask leaves of an answer. Raises CloudError 400 for a field that no answer has."""
    if "$ref" in schema:
        schema = document(service)["schemas"][schema["$ref"]]
    if not mask:
        return value
    if schema.get("type") == "array":
        return [select(service, schema["items"], mask, item) for item in value or []]
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties")
    selected: dict[str, Any] = {}
    for name, inner in mask.items():
        members = [*(value or {})] if name == "*" else [name]
        for member in members:
            member_schema = properties.get(member, extra)
            if member_schema is None:
                raise _invalid(member)
            if isinstance(value, dict) and member in value:
                selected[member] = select(service, member_schema, inner, value[member])
            elif inner:
                # An absent field has no value to select from, but its mask may be wrong.
                select(service, member_schema, inner, None)
    return selected


def _list(tokens: list[str], text: str) -> dict[str, Mask]:
    """Consumes `a,b/c,d(e)` up to a closing parenthesis."""
    masks: dict[str, Mask] = {}
    while True:
        name, inner = _path(tokens, text)
        masks[name] = inner
        if not tokens or tokens[0] != ",":
            return masks
        tokens.pop(0)


def _path(tokens: list[str], text: str) -> tuple[str, Mask]:
    if not tokens or tokens[0] in "(),/":
        raise _invalid(text)
    name = tokens.pop(0)
    if tokens and tokens[0] == "/":
        tokens.pop(0)
        inner_name, inner = _path(tokens, text)
        return name, {inner_name: inner}
    if tokens and tokens[0] == "(":
        tokens.pop(0)
        listed = _list(tokens, text)
        if not tokens or tokens.pop(0) != ")":
            raise _invalid(text)
        return name, listed
    return name, {}


def _invalid(problem: str) -> Exception:
    return google_error(400, f"Invalid field selection {problem}")
