"""The JSON Schema of a stack file, for editors. `python -m infra.spec.json_schema` prints
docs/reference/stack-file.schema.json.

It has the shapes and the words, not what `infra.plan` knows of clouds and GPUs: what it accepts may
still be refused.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from infra.spec.reading.source import KEY
from infra.spec.schema.fleet import Fleet


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of `Pulumi.<stack>.yaml`."""
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[Fleet, Field(discriminator="cloud")])
    fleet = _cleaned(adapter.json_schema())
    definitions = fleet.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "slicewright stack file",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {"type": "object", "required": [KEY], "properties": {KEY: fleet}},
        },
        "$defs": definitions,
    }


def text() -> str:
    """As it lies in the repository."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _cleaned(node: Any) -> Any:
    """Without pydantic's titles, which repeat the key, and without the docstrings' line breaks."""
    if isinstance(node, dict):
        if isinstance(node.get("description"), str):
            node = {**node, "description": " ".join(node["description"].split())}
        kept = {
            k: _cleaned(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))
        }
        # pydantic leaves keys that match no pattern open; the program refuses them.
        return {**kept, "additionalProperties": False} if "patternProperties" in kept else kept
    return [_cleaned(v) for v in node] if isinstance(node, list) else node


if __name__ == "__main__":
    print(text(), end="")
