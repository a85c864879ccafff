"""Plain data as text, the same text for equal data."""

from __future__ import annotations

import hashlib
from typing import Any

import yaml

JsonObject = dict[str, Any]


def as_yaml(data: JsonObject) -> str:
    """YAML with sorted keys, so that equal data gives equal text."""
    return _dump(data, sort_keys=True, default_flow_style=False, width=120)


def as_flow_yaml(data: JsonObject) -> str:
    """YAML in the given order, with innermost collections on one line."""
    return _dump(data, sort_keys=False, default_flow_style=None, width=1_000)


def words_as_flow_yaml(data: JsonObject) -> str:
    """Does the same as `as_flow_yaml`, in a fifth of the time if libyaml is installed.

    Only for data whose strings are words of letters, digits and `-._+`, at least one character: of
    other strings libyaml writes some in another way, and equal data would not give equal text.
    """
    return _dump(data, _InFullByLibyaml, sort_keys=False, default_flow_style=None, width=1_000)


def short_hash(text: str) -> str:
    """Eight hexadecimal digits, for names that must change with their content."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


class _InFull(yaml.SafeDumper):
    """Writes a value that occurs twice in full each time, not as an anchor and an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# PyYAML is built without libyaml if it has no wheel for the platform.
_Libyaml: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _InFullByLibyaml(_Libyaml):  # type: ignore[misc] # a class that may not be there
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dump(data: JsonObject, dumper: Any = _InFull, **style: Any) -> str:
    return str(yaml.dump(data, Dumper=dumper, **style))
