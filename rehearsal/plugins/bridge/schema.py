"""The inputs that each resource may have, and the check of a program's inputs against them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Secret


@dataclass(frozen=True)
class Schema:
    """One provider's resources by token, and the object types that they use."""

    resources: Mapping[str, JsonObject]
    types: Mapping[str, Mapping[str, JsonObject]]

    def inputs(self, token: str) -> Mapping[str, JsonObject]:
        inputs: Mapping[str, JsonObject] = self.resources[token]["inputs"]
        return inputs

    def outputs(self, token: str) -> Sequence[str]:
        outputs: Sequence[str] = self.resources[token]["outputs"]
        return outputs

    def failures(self, token: str, inputs: Mapping[str, Any]) -> list[CheckFailure]:
        """Unknown, missing and mistyped properties. Values that are not known yet pass."""
        return list(self._object(self.inputs(token), inputs, ""))

    def _object(
        self, properties: Mapping[str, JsonObject], value: Mapping[str, Any], path: str
    ) -> Iterator[CheckFailure]:
        for name, item in value.items():
            at = f"{path}.{name}" if path else name
            if name.startswith("__"):
                continue
            if name not in properties:
                near = difflib.get_close_matches(name, properties, n=1)
                hint = (
                    f"did you mean {near[0]}?"
                    if near
                    else f"properties here: {', '.join(sorted(properties))}"
                )
                yield CheckFailure(at, f"unknown property {name!r}; {hint}")
            else:
                yield from self._value(properties[name]["type"], item, at)
        for name, schema in properties.items():
            if schema.get("required") and value.get(name) is None:
                at = f"{path}.{name}" if path else name
                yield CheckFailure(at, f"missing required property {name!r}")

    def _value(self, kind: Any, value: Any, path: str) -> Iterator[CheckFailure]:
        if isinstance(value, Secret):
            value = value.value
        if value is None or value is UNKNOWN or kind == "any":
            return
        if isinstance(kind, str):
            if not _fits(kind, value):
                yield CheckFailure(path, f"expected {_EXPECTED[kind]}, got {_show(value)}")
        elif "list" in kind:
            if not isinstance(value, list):
                yield CheckFailure(path, f"expected a list, got {_show(value)}")
                return
            for index, item in enumerate(value):
                yield from self._value(kind["list"], item, f"{path}[{index}]")
        elif not isinstance(value, dict):
            yield CheckFailure(path, f"expected an object, got {_show(value)}")
        elif "map" in kind:
            for key, item in value.items():
                yield from self._value(kind["map"], item, f"{path}[{json.dumps(key)}]")
        else:
            yield from self._object(self.types[kind["object"]], value, path)


_EXPECTED = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def _fits(kind: str, value: Any) -> bool:
    """Whether the value fits; as in the bridge, "3" fits a number, and 3 a string."""
    if kind == "string":
        return isinstance(value, str | int | float | bool)
    if kind == "boolean":
        return isinstance(value, bool) or value in ("true", "false")
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return False
    return isinstance(value, int | float) and (kind == "number" or float(value).is_integer())


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@cache
def load(path: Path) -> Schema:
    """Reads a schema.json that `extract_schemas` wrote."""
    raw = json.loads(path.read_text())
    return Schema(raw["resources"], raw["types"])
