"""Rules: pure functions from the declared resources of a program to their violations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from policy.rules.resources import Resource

Settings = Mapping[str, Any]
"""Setting -> value, for all settings of a rule."""
Level = Literal["mandatory", "advisory"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a rule in the pack's config file."""

    name: str
    schema: Mapping[str, Any]
    """JSON Schema of the value."""
    default: Any


@dataclass(frozen=True, kw_only=True)
class ResourceRule:
    """Checks each resource alone, before the engine creates it."""

    name: str
    description: str
    level: Level
    settings: Sequence[Setting] = ()
    check: Callable[[Resource, Settings], Iterable[str]]


@dataclass(frozen=True, kw_only=True)
class StackRule:
    """Checks all resources together: before creation in a preview, afterwards in `up`."""

    name: str
    description: str
    level: Level
    settings: Sequence[Setting] = ()
    check: Callable[[Sequence[Resource], Settings], Iterable[tuple[str, str]]]
    """Yields pairs of URN and message."""


def complete_settings(rule: ResourceRule | StackRule, config: Mapping[str, Any]) -> Settings:
    """The settings of the config file, with defaults for missing settings."""
    return {s.name: config.get(s.name, s.default) for s in rule.settings}


def names(setting: str, description: str, default: Sequence[str] = ()) -> Setting:
    """A setting that is a list of names or patterns."""
    schema = {"type": "array", "items": {"type": "string"}, "description": description}
    return Setting(name=setting, schema=schema, default=tuple(default))


def number(setting: str, description: str, default: float) -> Setting:
    """A setting that is a number of 0 or more."""
    schema = {"type": "number", "minimum": 0, "description": description}
    return Setting(name=setting, schema=schema, default=default)
