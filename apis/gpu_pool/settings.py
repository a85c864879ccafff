"""The kinds of settings that a GPUPool's policy has. Pure.

A setting is declared once, as the default of a dataclass's field. The OpenAPI schema of the CRD,
the reader and the writer follow from it, as do the bounds and descriptions of a stack file's keys.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from slicewright.apis.names import Manifest
from slicewright.apis.openapi import count

_SETTING: Final = "setting"
_PERCENTAGE: Final = re.compile(r"(0|[1-9][0-9]*)%")


@dataclass(frozen=True, kw_only=True)
class NodeShareBounds:
    """The bounds of a number of nodes that may also be a percentage such as `25%`."""

    minimum: int
    """The least number, and the least percentage."""
    maximum: int = 100
    """The greatest number in a stack file. A GPUPool may have a greater one."""

    @property
    def pattern(self) -> str:
        """The regular expression of a percentage."""
        percentage = "[0-9]|[1-9][0-9]|100" if self.minimum == 0 else "[1-9][0-9]?|100"
        return f"^({percentage})%$"

    def refusal(self, value: object) -> str:
        """Returns why a stack file may not have the value, or empty. `{value}` stands for it."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            return "{value} is neither a number of nodes nor a percentage of them"
        if isinstance(value, int):
            return self._out_of_bounds(value, self.maximum, "node")
        if match := _PERCENTAGE.fullmatch(value):
            return self._out_of_bounds(int(match[1]), 100, "%")
        if value.endswith("%"):
            return "{value} is not a whole percentage"
        return "{value} is text, and neither a number of nodes nor a percentage of them"

    def _out_of_bounds(self, number: int, maximum: int, unit: str) -> str:
        if number < self.minimum:
            if self.minimum == 0:
                return "must not be negative, but is {value}"
            return f"must be at least {_with_unit(self.minimum, unit)}, but is {{value}}"
        if number > maximum:
            return f"must be at most {_with_unit(maximum, unit)}, but is {{value}}"
        return ""


@dataclass(frozen=True, kw_only=True)
class NodeShare:
    """A number of nodes, or a percentage of the pool's nodes such as `25%`."""

    description: str
    default: int
    minimum: int
    """The least number, and the least percentage."""

    @property
    def bounds(self) -> NodeShareBounds:
        return NodeShareBounds(minimum=self.minimum)

    def schema(self) -> Manifest:
        return {
            "description": self.description,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": self.minimum,
            "pattern": self.bounds.pattern,
            "default": self.default,
        }

    def read(self, value: Any) -> int | str:
        share: int | str = value
        nodes_in(share, 1)  # a malformed percentage is refused here, not in the middle of a pass
        return share

    def dump(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, kw_only=True)
class NodeTotal:
    """A number of nodes."""

    description: str
    default: int | None
    """None if the setting may be absent."""
    minimum: int
    maximum: int = 100
    """The greatest number in a stack file. A GPUPool may have a greater one."""

    def schema(self) -> Manifest:
        default = {} if self.default is None else {"default": self.default}
        return {**count(self.description), "minimum": self.minimum, **default}

    def read(self, value: Any) -> int | None:
        return None if value is None and self.default is None else int(value)

    def dump(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, kw_only=True)
class Duration:
    """A time in whole seconds. A stack file has it in minutes."""

    description: str
    default: float
    maximum: int
    """The greatest number of seconds in a stack file. A GPUPool may have a greater one."""

    def schema(self) -> Manifest:
        return {**count(self.description), "minimum": 1, "default": int(self.default)}

    def read(self, value: Any) -> float:
        return float(value)

    def dump(self, value: Any) -> Any:
        return int(value)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several words."""

    about: str
    """The description of the setting, without the words."""
    meanings: Mapping[str, str]
    """Word -> its effect. The first word is the default."""

    @property
    def default(self) -> str:
        return next(iter(self.meanings))

    @property
    def description(self) -> str:
        return describe(self.about, self.meanings)

    def schema(self) -> Manifest:
        return {
            "type": "string",
            "description": self.description,
            "enum": [*self.meanings],
            "default": self.default,
        }

    def read(self, value: Any) -> Any:
        return value

    def dump(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, kw_only=True)
class Flag:
    description: str
    default: bool = False

    def schema(self) -> Manifest:
        return {"type": "boolean", "description": self.description, "default": self.default}

    def read(self, value: Any) -> bool:
        return bool(value)

    def dump(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, kw_only=True)
class Switch:
    """A truth value that a GPUPool states as one of two words. It is off by default."""

    about: str
    off: str
    on: str
    meanings: tuple[str, str]
    """What happens if it is off, and on."""
    default: bool = False

    @property
    def description(self) -> str:
        return describe(self.about, dict(zip((self.off, self.on), self.meanings, strict=True)))

    def schema(self) -> Manifest:
        return {
            "type": "string",
            "description": self.description,
            "enum": [self.off, self.on],
            "default": self.off,
        }

    def read(self, value: Any) -> bool:
        return bool(value == self.on)

    def dump(self, value: Any) -> Any:
        return self.on if value else self.off


Setting = NodeShare | NodeTotal | Duration | Choice | Flag | Switch


def setting(kind: Setting) -> Any:
    """Declares a field of a policy."""
    return dataclasses.field(default=kind.default, metadata={_SETTING: kind})


def settings_of(policy: type[Any]) -> Mapping[str, Setting]:
    """Field -> its setting, for each field that is declared with `setting`."""
    return {
        field.name: field.metadata[_SETTING]
        for field in dataclasses.fields(policy)
        if _SETTING in field.metadata
    }


@cache
def key_of(field: str) -> str:
    """Returns the GPUPool's key for a field: `time_limit_s` → `timeLimitSeconds`."""
    words = re.sub(r"_s$", "_seconds", field).split("_")
    return words[0] + "".join(word.capitalize() for word in words[1:])


def schema_of(policy: type[Any]) -> Manifest:
    return {key_of(field): kind.schema() for field, kind in settings_of(policy).items()}


def read_settings(policy: type[Any], raw: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the fields that `raw` states. Raises TypeError or ValueError."""
    stated = dict(raw or {})
    return {
        field: kind.read(stated[key_of(field)])
        for field, kind in settings_of(policy).items()
        if key_of(field) in stated
    }


def dump_settings(policy: Any) -> Manifest:
    """Returns every setting with its value, so that no default of the API server's differs."""
    return {
        key_of(field): kind.dump(getattr(policy, field))
        for field, kind in settings_of(type(policy)).items()
        if getattr(policy, field) is not None
    }


def nodes_in(share: int | str, nodes: int) -> int:
    """Returns a number as it is, and a percentage as that part of `nodes`, rounded down."""
    return share if isinstance(share, int) else nodes * int(share.removesuffix("%")) // 100


def describe(about: str, meanings: Mapping[str, str]) -> str:
    return " ".join([about, *(f"{word}: {meaning}." for word, meaning in meanings.items())])


def _with_unit(number: int, unit: str) -> str:
    if unit == "%":
        return f"{number}%"
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
