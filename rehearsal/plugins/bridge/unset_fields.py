"""What the state has and the program never asked for: values that the cloud filled in.

Pulumi's bridged providers compare a program with the *state*, not with the inputs of the last run.
A block that the cloud filled in, and that the provider's schema does not mark as computed, is
therefore to be removed by the next `up`, though nothing was changed: for example a3's local
SSDs, `4 -> null # forces replacement` (mozilla/terraform-modules #464).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slicewright.rehearsal.plugins.bridge.schema import Schema


def unset_properties(
    schema: Schema,
    token: str,
    state: Mapping[str, Any],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
) -> Iterator[tuple[str, Any]]:
    """Path and value of each property that only the state has.

    state: the outputs; old, new: the inputs of the last run and of this one. What the last run
    asked for is a change of the program and not meant here.
    """
    yield from _object_properties(schema, schema.inputs(token), state, old, new, "")


def _object_properties(
    schema: Schema,
    properties: Mapping[str, Any],
    state: Mapping[str, Any],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    path: str,
) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(state.items()):
        if name not in properties:
            continue  # an output only
        at = f"{path}.{name}" if path else name
        before, requested = old.get(name), new.get(name)
        if requested is not None:
            yield from _nested_properties(
                schema, properties[name]["type"], (value, before, requested), at
            )
        elif before is None and not _is_zero(value):
            yield at, value


def _nested_properties(
    schema: Schema, kind: Any, values: tuple[Any, Any, Any], path: str
) -> Iterator[tuple[str, Any]]:
    value, before, requested = values
    if not isinstance(kind, dict):
        return
    if "object" in kind and isinstance(value, dict) and isinstance(requested, dict):
        old = before if isinstance(before, dict) else {}
        yield from _object_properties(
            schema, schema.types[kind["object"]], value, old, requested, path
        )
    elif "list" in kind and isinstance(value, list) and isinstance(requested, list):
        olds = before if isinstance(before, list) and len(before) == len(value) else []
        if len(value) == len(requested):
            for index, (item, requested_item) in enumerate(zip(value, requested, strict=True)):
                was = olds[index] if olds else None
                yield from _nested_properties(
                    schema, kind["list"], (item, was, requested_item), f"{path}[{index}]"
                )


def _is_zero(value: Any) -> bool:
    """Whether Terraform's state cannot tell it from an unset value; a block of zeros is none."""
    return value in (None, "", 0, False, [], {})
