"""Query parameters: those of a method by their types, and the standard ones of every Google API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from slicewright.rehearsal.clouds.gcp.errors import google_error

_STANDARD = frozenset(
    {
        "$.xgafv",
        "access_token",
        "alt",
        "callback",
        "fields",
        "key",
        "oauth_token",
        "prettyPrint",
        "quotaUser",
        "uploadType",
        "upload_protocol",
        "userIp",
    }
)


@dataclass(frozen=True, kw_only=True)
class Standard:
    """How the answer is asked for. Source: cloud.google.com/apis/docs/system-parameters."""

    pretty: bool = True
    fields: str | None = None
    """A partial response: what of the answer to send."""
    error_format: str = "1"
    """2: without the list `errors`."""
    access_token: str | None = None


def split(query: str) -> tuple[Standard, list[tuple[str, str]]]:
    """The standard parameters, and the others as sent. Raises CloudError 400."""
    pairs = parse_qsl(query, keep_blank_values=True)
    standard_values = {name: value for name, value in pairs if name in _STANDARD}
    if standard_values.get("alt", "json") != "json":
        raise google_error(
            400,
            f"Invalid value for alt: {standard_values['alt']!r}; the rehearsal's cloud answers in "
            "json.",
        )
    for name in ("callback", "uploadType", "upload_protocol"):
        if name in standard_values:
            raise google_error(
                400,
                f"Parameter {name} is not supported: no simulated method takes an upload or "
                "answers with a script.",
            )
    standard = Standard(
        pretty=standard_values.get("prettyPrint", "true") != "false",
        fields=standard_values.get("fields"),
        error_format=standard_values.get("$.xgafv", "1"),
        access_token=standard_values.get("access_token") or standard_values.get("oauth_token"),
    )
    return standard, [(n, v) for n, v in pairs if n not in _STANDARD]


def typed(method: Mapping[str, Any], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The method's parameters as JSON values. Raises CloudError 400.

    A value that is not of its parameter's type stays text, which the request's check refuses.
    """
    parameters = method.get("parameters", {})
    values: dict[str, Any] = {}
    for name, text in pairs:
        schema = parameters.get(name, {})
        if schema.get("location") == "path":
            raise google_error(400, f"Parameter {name} belongs into the path, not into the query.")
        value = _value(schema, text)
        if schema.get("repeated"):
            values.setdefault(name, []).append(value)
        elif name in values:
            raise google_error(
                400,
                f"Invalid value at '{name}', Proto field is not repeating, cannot start list.",
            )
        else:
            values[name] = value
    return values


def _value(schema: Mapping[str, Any], text: str) -> Any:
    kind = schema.get("type")
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind == "integer" and re.fullmatch(r"-?\d+", text):
        return int(text)
    if kind == "number" and re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", text):
        return float(text)
    return text
