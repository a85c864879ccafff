"""Where the text of a fleet comes from: its file, and the line of every key in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

KEY = "slicewright:fleet"
Path = tuple[str | int, ...]
_MOST_VALUES = 200_000
"""Far more than 1,000 pools; aliases of aliases can stand for billions."""
_MOST_BYTES = 4 * 1024 * 1024
_DEEPEST = 60
"""Levels of nesting; a stack file has ten. The parser recurses, and in C nothing stops it."""


class NotReadable(Exception):
    """The stack file is not there, or is no YAML. The message says which, and where."""


@dataclass(frozen=True)
class Source:
    """A fleet as written. `lines` maps a path to the lines of its key and of its value, counted from 1."""

    name: str
    """The file, as people would type it; another description where the text has no file."""
    raw: Any = None
    lines: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    twice: tuple[Path, ...] = ()
    """Keys that the file has more than once; the last one counts."""

    def line(self, path: Path, *, key: bool = False) -> int | None:
        """The line of the key or of the value at `path`, or of the nearest parent that the file has."""
        at = path
        while at not in self.lines:
            if not at:
                return None
            at, key = at[:-1], True
        return self.lines[at][0 if key else 1]

    def value(self, path: Path) -> Any:
        """What the file says at `path`; None where it says nothing."""
        at = self.raw
        for step in path:
            try:
                at = at[step]
            except (KeyError, IndexError, TypeError):
                return None
        return at


def read(file: FilePath, *, name: str | None = None) -> Source:
    """The fleet in a stack file `Pulumi.<stack>.yaml`. Raises NotReadable."""
    name = name or str(file)
    try:
        content = file.read_bytes()
        if len(content) > _MOST_BYTES:
            raise NotReadable(f"{name}: has {len(content)} bytes; a stack file has at most {_MOST_BYTES}")
        # An editor on Windows may have put a byte order mark in front.
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        why = getattr(e, "strerror", None) or f"is no UTF-8 text: byte {getattr(e, 'start', 0)} is not"
        raise NotReadable(f"{name}: cannot be read: {why}") from None
    try:
        _check_depth(text, name)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        # At the end of the file libyaml points behind its last line.
        at = f":{min(mark.line, text.count(chr(10), 0, -1)) + 1}" if mark else ""
        said = getattr(e, "problem", None) or getattr(e, "reason", None) or str(e)
        raise NotReadable(f"{name}{at}: is no YAML: {said}") from None
    if root is None:
        raise NotReadable(f"{name}: is empty; it needs the key {KEY!r} under 'config'")
    fleet = _child(_child(root, "config"), KEY)
    if fleet is None:
        raise NotReadable(f"{name}: has no key {KEY!r} under 'config'")
    key_node, value_node = fleet
    reader = _Reader()
    try:
        raw = reader.value(value_node, (), key_node.start_mark.line + 1)
    except NotReadable as e:
        raise NotReadable(f"{name}{e}") from None
    except yaml.YAMLError as e:
        raise NotReadable(f"{name}: {e}") from None
    return Source(name, raw, reader.lines, tuple(reader.twice))


def shown(path: Path) -> str:
    """`node_pools[0].partition.profile`; keys that are not plain words in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step if re.fullmatch(r"[A-Za-z_][\w-]*", step) else json.dumps(step)
            text += f".{plain}" if text else plain
    return text or KEY


def _check_depth(text: str, name: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise NotReadable(f"{name}:{line}: is nested more than {_DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


# libyaml reads 200 pools in a tenth of the time; a PyYAML built without it reads them too.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML as the Pulumi engine reads it: `yes`, `on`, `12:30` and dates are text, not booleans, numbers and times."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("merge", r"^(?:<<)$", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def _child(node: Any, key: str) -> Any:
    value = node[1] if isinstance(node, tuple) else node
    if isinstance(value, yaml.MappingNode):
        for entry in value.value:
            if entry[0].value == key:
                return entry
    return None


class _Reader:
    """YAML nodes to values, with the lines of every path."""

    def __init__(self) -> None:
        self.lines: dict[Path, tuple[int, int]] = {}
        self.twice: list[Path] = []
        self._loader = _Loader("")
        self._inside: list[yaml.Node] = []

    def value(self, node: yaml.Node, path: Path, key_line: int) -> Any:
        if any(node is outer for outer in self._inside):
            raise NotReadable(f":{key_line}: an alias points to what it stands in")
        if len(self.lines) > _MOST_VALUES:
            raise NotReadable(f": has more than {_MOST_VALUES} values once its aliases are written out")
        self.lines[path] = (key_line, node.start_mark.line + 1)
        self._inside.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(n, (*path, i), n.start_mark.line + 1) for i, n in enumerate(node.value)]
            return self._scalar(node, key_line)
        finally:
            self._inside.pop()

    def _scalar(self, node: yaml.Node, line: int) -> str | int | float | bool | None:
        try:
            value = self._loader.construct_object(node)
        except ValueError:
            # Python turns no text of more than 4,300 digits into a number.
            value = math.inf
        if isinstance(value, float) and not math.isfinite(value):
            # 1e999 is a float to YAML and infinite to Python; JSON has no such number.
            raise NotReadable(f":{line}: a number is too large")
        if value is None or isinstance(value, str | int | float | bool):
            return value
        raise NotReadable(f":{line}: the tag {node.tag} has no place in a stack file")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        self._loader.flatten_mapping(node)
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in mapping:
                self.twice.append((*path, key))
            mapping[key] = self.value(value_node, (*path, key), key_node.start_mark.line + 1)
        return mapping
