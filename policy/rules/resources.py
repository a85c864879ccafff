"""A resource as the engine shows it to a pack, and how its properties are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class Unknown(Enum):
    """A value that a preview does not know. In `up`, the rules see the value."""

    VALUE = "unknown"


UNKNOWN: Final = Unknown.VALUE


@dataclass(frozen=True, kw_only=True)
class Resource:
    type: str
    """Pulumi's token, such as gcp:container/nodePool:NodePool."""
    name: str
    urn: str
    props: Mapping[str, Any] = field(hash=False)
    """Pulumi's property names (camelCase). Inputs, or in stack rules of `up` the outputs."""
    provider: Mapping[str, Any] = field(hash=False, default_factory=dict)
    """Properties of its explicit provider, empty if the engine does not pass them."""
    protect: bool = False


def property_at(value: Any, *path: str) -> Any:
    """The property at `path`: None if it is missing, UNKNOWN if a part of the path is unknown."""
    for key in path:
        if value is UNKNOWN:
            return UNKNOWN
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def items(value: Any) -> Iterator[Any]:
    """The known items of a list property. `up` checks the items that a preview does not know."""
    if isinstance(value, list | tuple):
        yield from (item for item in value if item is not UNKNOWN)


def texts(value: Any) -> Mapping[str, str]:
    """The known entries of a property that maps names to texts."""
    if not isinstance(value, Mapping):
        return {}
    return {key: str(text) for key, text in value.items() if isinstance(text, str)}


def whole(value: Any) -> int | None:
    """A whole number. The engine passes floats, and AWS's outputs may be strings."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    return None
