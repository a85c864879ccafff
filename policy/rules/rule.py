"""What a rule is: a pure function from what a program declares to what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from policy.rules.declared import Resource

Settings = Mapping[str, Any]
"""Setting -> value, all of a rule's."""
Level = Literal["mandatory", "advisory"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a pack's config file may say about a rule."""

    name: str
    schema: Mapping[str, Any]
    """JSON Schema of the value."""
    default: Any


@dataclass(frozen=True, kw_only=True)
class ResourceRule:
    """Judges each resource by itself, before the engine makes it."""

    name: str
    description: str
    level: Level
    settings: Sequence[Setting] = ()
    check: Callable[[Resource, Settings], Iterable[str]]


@dataclass(frozen=True, kw_only=True)
class StackRule:
    """Judges all resources together: in a preview before anything is made, in `up` afterwards."""

    name: str
    description: str
    level: Level
    settings: Sequence[Setting] = ()
    check: Callable[[Sequence[Resource], Settings], Iterable[tuple[str, str]]]
    """Gives URNs and messages."""


def completed(rule: ResourceRule | StackRule, given: Mapping[str, Any]) -> Settings:
    """What the config file says, and defaults for the rest."""
    return {s.name: given.get(s.name, s.default) for s in rule.settings}


def names(setting: str, description: str, default: Sequence[str] = ()) -> Setting:
    """A setting that is a list of names or patterns."""
    schema = {"type": "array", "items": {"type": "string"}, "description": description}
    return Setting(name=setting, schema=schema, default=tuple(default))


def number(setting: str, description: str, default: float) -> Setting:
    """A setting that is a number of 0 or more."""
    schema = {"type": "number", "minimum": 0, "description": description}
    return Setting(name=setting, schema=schema, default=default)
