"""Whatever googleapiclient sends for a method arrives as that method, with the same values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp import models
from slicewright.rehearsal.clouds.gcp.models import find_method
from slicewright.rehearsal.clouds.gcp.rest.endpoints import find
from slicewright.rehearsal.clouds.gcp.rest.paths import match, templates
from slicewright.rehearsal.clouds.gcp.rest.query import split, typed
from tests.properties import examples
from tests.rehearsal.clouds.gcp.google_client import ADDRESS, client

# What percent-encoding must not lose; of these, reserved expansion encodes only the first four.
_UNRESERVED, _RESERVED = "abz09-_.~ é", "@&=+!$'()*,;"
_ANYTHING = re.compile(r"\[\^/\]\+|\.\*|\.\+")
_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


def _of_schema(service: str, schema: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """JSON values that the schema allows; deep objects stay empty."""
    if "$ref" in schema:
        schema = models.document(service)["schemas"][schema["$ref"]]
    kind = schema.get("type", "any")
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if kind == "boolean":
        return st.booleans()
    if kind in ("integer", "number"):
        return st.integers(0, 1000)
    if kind == "string":
        long = schema.get("format") in ("int64", "uint64")
        return st.integers(0, 2**62).map(str) if long else _TEXT
    if kind == "array":
        return st.lists(_of_schema(service, schema["items"], depth + 1), max_size=2)
    members = schema.get("properties", {})
    if depth > 1 or not members:
        return st.just({})
    chosen = st.lists(st.sampled_from(sorted(members)), max_size=2, unique=True)
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries(
            {n: _of_schema(service, members[n], depth + 1) for n in names}
        )
    )


@st.composite
def _calls(draw: st.DrawFn, service: str) -> tuple[str, JsonObject, Any]:
    template = draw(st.sampled_from(templates(service)))
    method = find_method(service, template.method)
    params: JsonObject = {}
    for name, schema in sorted(method.get("parameters", {}).items()):
        if schema["location"] == "path":
            params[name] = _path_value(draw, schema)
        elif schema.get("required") or draw(st.booleans()):
            # The client itself refuses what does not match the pattern of a parameter.
            pattern = schema.get("pattern")
            value = _matching(pattern) if pattern else _of_schema(service, schema)
            many = st.lists(value, min_size=1, max_size=3)
            params[name] = draw(many if schema.get("repeated") else value)
    reference = method.get("request")
    body = draw(_of_schema(service, reference)) if reference else None
    return template.method, params, body


def _matching(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))


def _path_value(draw: st.DrawFn, schema: JsonObject) -> str:
    pattern = schema.get("pattern", "[^/]+").removeprefix("^").removesuffix("$")
    segments = _ANYTHING.split(pattern)
    if any(set(text) & set("[]()|{}*+\\") for text in segments):
        return draw(_matching(pattern).filter(bool))
    alphabet = _UNRESERVED + _RESERVED
    filled = [draw(st.text(alphabet, min_size=1, max_size=8)) for _ in segments[1:]]
    return segments[0] + "".join(f + s for f, s in zip(filled, segments[1:], strict=True))


@pytest.mark.parametrize("service", sorted(models.DOCUMENTS))
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_call_arrives_unchanged(service: str, data: st.DataObject) -> None:
    method, params, body = data.draw(_calls(service))
    arguments = {**params, **({} if body is None else {"body": body})}
    names = {n.replace(".", "_").replace("-", "_"): v for n, v in arguments.items()}
    sent = client(lambda *_: {}, service).request(method, **names)
    path, _, query = sent.uri.removeprefix(ADDRESS).partition("?")
    target = find(path)
    assert target is not None
    found = match(service, sent.method, target.path)
    assert found is not None, sent.uri
    seen, in_path = found
    description = find_method(service, seen)
    _, pairs = split(query)
    assert (seen, {**typed(description, pairs), **in_path}) == (method, params)
    assert (json.loads(sent.body) if sent.body else None) == body
