"""The JSON Schema of a stack file, for editors: docs/reference/stack-file.schema.json.

`python -m slicewright.infra.stack_file.json_schema` prints it. It covers structure and syntax, not
clouds and GPUs: `slicewright.infra.plan` may still refuse a file that the schema accepts.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from slicewright.infra.stack_file.layers.merge import EXTENDS
from slicewright.infra.stack_file.problem import KEY
from slicewright.infra.stack_file.reading.annotations import FLEET_TYPE


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of `Pulumi.<stack>.yaml`."""
    adapter: TypeAdapter[Any] = TypeAdapter(FLEET_TYPE)
    fleet = _clean(adapter.json_schema())
    definitions = fleet.pop("$defs")
    definitions["FleetPart"] = _fleet_part(fleet, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "slicewright stack file",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {
                "type": "object",
                "required": [KEY],
                "properties": {
                    KEY: {
                        "if": {"required": [EXTENDS]},
                        "then": {"$ref": "#/$defs/FleetPart"},
                        "else": fleet,
                    }
                },
            },
        },
        "$defs": definitions,
    }


def _fleet_part(fleet: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a fleet with `extends`: the keys of every cloud, and any value, because the
    rest of the value may be in a base file.
    """
    members = [definitions[member["$ref"].rpartition("/")[2]] for member in fleet["oneOf"]]
    names = sorted({name for member in members for name in member["properties"]})
    file = {"type": "string", "minLength": 1}
    extends = {
        "description": "Files with common parts of the fleet: paths relative to this file, inside "
        "the project. Mappings merge, lists of named items merge by name, other lists replace, "
        "null removes a key; later files win, and this one last.",
        "anyOf": [file, {"type": "array", "items": file, "minItems": 1}],
    }
    return {
        "description": "A part of a fleet. `slicewright check` checks the merged fleet.",
        "type": "object",
        "additionalProperties": False,
        "properties": {EXTENDS: extends, **{name: {} for name in names}},
    }


def text() -> str:
    """The schema as text, exactly as committed."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _clean(node: Any) -> Any:
    """Removes pydantic's titles, which repeat the keys, and line breaks in descriptions."""
    if isinstance(node, dict):
        if isinstance(node.get("description"), str):
            node = {**node, "description": " ".join(node["description"].split())}
        cleaned = {
            k: _clean(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))
        }
        if cleaned.get("minItems") and cleaned.get("default") == []:
            del cleaned["default"]  # no file may write it
        # pydantic allows keys that match no pattern; slicewright refuses them.
        return (
            {**cleaned, "additionalProperties": False}
            if "patternProperties" in cleaned
            else cleaned
        )
    return [_clean(v) for v in node] if isinstance(node, list) else node


if __name__ == "__main__":
    print(text(), end="")
