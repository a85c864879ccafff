"""What fields an object of somebody else's definition has, written down from that definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Fields:
    """An object with these fields and no others."""

    of: Mapping[str, Any]
    required: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Many:
    """A list of these."""

    of: Any


@dataclass(frozen=True)
class Named:
    """A mapping from any name to these."""

    of: Any


@dataclass(frozen=True)
class OneOf:
    values: frozenset[str]


ANY: Final = object()


def wrong(value: Any, shape: Any, path: str = "") -> Iterator[str]:
    """Where an object differs from its shape."""
    match shape:
        case Fields():
            if not isinstance(value, Mapping):
                yield f"{path}: is no object"
                return
            yield from (f"{path}.{key}: no such field" for key in value.keys() - shape.of.keys())
            yield from (f"{path}.{key}: is missing" for key in shape.required - value.keys())
            for key in value.keys() & shape.of.keys():
                yield from wrong(value[key], shape.of[key], f"{path}.{key}")
        case Many():
            if not isinstance(value, list):
                yield f"{path}: is no list"
                return
            for index, one in enumerate(value):
                yield from wrong(one, shape.of, f"{path}[{index}]")
        case Named():
            if not isinstance(value, Mapping):
                yield f"{path}: is no mapping"
                return
            for key, one in value.items():
                yield from wrong(one, shape.of, f"{path}.{key}")
        case OneOf():
            if value not in shape.values:
                yield f"{path}: is {value!r}, not one of {', '.join(sorted(shape.values))}"
        case type():
            # bool is an int to Python, and not to an API server.
            if type(value) is not shape:
                yield f"{path}: is {value!r}, which is no {shape.__name__}"
        case _:
            assert shape is ANY
