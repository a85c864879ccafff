"""A resource as the engine shows it to a pack, and how its properties are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class Unknown(Enum):
    """A preview does not know the value; the `up` will. Then the rules see it."""

    VALUE = "unknown"


UNKNOWN: Final = Unknown.VALUE


@dataclass(frozen=True, kw_only=True)
class Resource:
    type: str
    """Pulumi's token, such as gcp:container/nodePool:NodePool."""
    name: str
    urn: str
    props: Mapping[str, Any] = field(hash=False)
    """As Pulumi spells them (camelCase). Inputs; in an `up`'s stack rules the outputs."""
    provider: Mapping[str, Any] = field(hash=False, default_factory=dict)
    """Properties of its explicit provider; empty where the engine does not tell."""
    protect: bool = False


def at(value: Any, *path: str) -> Any:
    """The property below; None where there is none, UNKNOWN where the way to it is unknown."""
    for key in path:
        if value is UNKNOWN:
            return UNKNOWN
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def items(value: Any) -> Iterator[Any]:
    """Of a list property. None where it is absent or unknown: what it holds is judged in `up`."""
    if isinstance(value, list | tuple):
        yield from (one for one in value if one is not UNKNOWN)


def texts(value: Any) -> Mapping[str, str]:
    """The known entries of a property that maps names to texts."""
    if not isinstance(value, Mapping):
        return {}
    return {key: str(one) for key, one in value.items() if isinstance(one, str)}


def whole(value: Any) -> int | None:
    """A number of things. The engine hands on floats, and AWS's outputs may be texts."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    return None
