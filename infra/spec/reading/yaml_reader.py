"""YAML to values as the Pulumi engine reads it, with lines, and problems of the YAML itself."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from infra.spec.problem import Path, Problem

_MAX_VALUES = 200_000
"""Far more than 1,000 pools have; nested aliases can expand to billions."""
_MAX_DEPTH = 60
"""Levels of nesting; a stack file has about ten."""
_TOO_DEEP = f"is nested more than {_MAX_DEPTH} levels deep"
_MAX_PARSER_DEPTH = 5000
"""libyaml recurses without a limit; measured, it crashes the process beyond 20,000 levels."""
NO_TEMPLATES = "variables and templates are not expanded in stack files; write the value"


class NotReadable(Exception):
    """The stack file cannot be read, is not YAML, or has no fleet. The message names the line."""


# libyaml takes a tenth of the time; PyYAML may be built without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_PLAIN_TAGS = {
    yaml.ScalarNode: "tag:yaml.org,2002:str",
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
    yaml.MappingNode: "tag:yaml.org,2002:map",
}


class Loader(_Base):  # type: ignore[misc]
    """YAML as the Pulumi engine reads it: `yes`, `on`, `12:30` and dates are strings."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> Any:
        """As inherited, but without path resolvers: it runs for every node and was slow."""
        if kind is yaml.ScalarNode and implicit[0]:
            for tag, pattern in self.yaml_implicit_resolvers.get(value[:1], ()):
                if pattern.match(value):
                    return tag
        return _PLAIN_TAGS[kind]


_TAG_PREFIX = "tag:yaml.org,2002:"
_SCALARS = {
    "bool": ("a boolean", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")),
    "int": ("an integer", re.compile(r"^[-+]?[0-9]+$")),
    "float": (
        "a number",
        re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?$"),
    ),
    "null": ("null", re.compile(r"^(?:~|null|Null|NULL|)$")),
}
"""YAML tag -> its name in messages, and the text that it may have."""
_NO_TAG = "write the value without a tag"
Loader.yaml_implicit_resolvers = {}
for _kind, _first in (
    ("bool", "tTfF"),
    ("int", "-+0123456789"),
    ("float", "-+.0123456789"),
    ("null", ["~", "n", "N", ""]),
):
    Loader.add_implicit_resolver(_TAG_PREFIX + _kind, _SCALARS[_kind][1], list(_first))
Loader.add_implicit_resolver(f"{_TAG_PREFIX}merge", re.compile(r"^(?:<<)$"), ["<"])


def _short(tag: str) -> str:
    return tag.replace(_TAG_PREFIX, "!!")


def check_depth(text: str, name: str) -> None:
    """Refuses nesting that would crash the parser; `Reader` refuses all beyond `_MAX_DEPTH`."""
    brackets, indented = (
        text.count("[") + text.count("{"),
        max(map(len, re.findall(r"^[ ?-]*", text, re.MULTILINE))),
    )
    # An upper bound: a bracket is at most one level and a column of indentation two, because a list
    # may be on the column of its key.
    if brackets + 2 * indented < _MAX_PARSER_DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_PARSER_DEPTH:
                raise NotReadable(
                    f"{name}:{event.start_mark.line + 1 if event.start_mark else 0}: {_TOO_DEEP}"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class Reader:
    """Converts YAML nodes to values and records lines and problems by path."""

    def __init__(self) -> None:
        self.lines: dict[Path, tuple[int, int]] = {}
        self.written: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self.unusable: list[Path] = []
        self._loader = Loader("")
        self._inside: set[int] = set()
        """Ids of the nodes whose values are being read."""

    def value(self, node: yaml.Node, path: Path, key_line: int) -> Any:
        if len(self.lines) > _MAX_VALUES:
            raise NotReadable(
                f": has more than {_MAX_VALUES} values when its aliases are expanded; "
                "use fewer aliases"
            )
        if len(path) > _MAX_DEPTH:
            raise NotReadable(f":{node.start_mark.line + 1}: {_TOO_DEEP}")
        self.lines[path] = (key_line, node.start_mark.line + 1)
        if id(node) in self._inside:
            self._refuse(
                path,
                "the alias is part of the value that it refers to",
                "write the value",
                in_key=True,
            )
            return None
        self._inside.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [
                    self.value(n, (*path, i), n.start_mark.line + 1)
                    for i, n in enumerate(node.value)
                ]
            return self._scalar(node, path)
        finally:
            self._inside.discard(id(node))

    def _scalar(self, node: yaml.Node, path: Path) -> str | int | float | bool | None:
        text = str(node.value)
        if node.tag == "tag:yaml.org,2002:str":
            return text
        if node.tag.endswith(":int") and re.fullmatch(r"[-+]?0\d+", text):
            self._refuse(
                path,
                f"{text[:20]} is ambiguous: YAML 1.1 reads a number with a leading 0 as octal, "
                "YAML 1.2 as decimal",
                f'write {text.lstrip("+-0")[:20] or 0}, or "{text[:20]}" in quotes for a string',
                "YAML 1.1 and 1.2 specifications",
            )
            return None
        kind = node.tag.removeprefix(_TAG_PREFIX)
        if kind not in _SCALARS:
            self._refuse(path, f"the YAML tag {_short(node.tag)} is not supported", _NO_TAG)
            return None
        name, pattern = _SCALARS[kind]
        if not pattern.match(text):
            # Only with an explicit tag: PyYAML's constructors assume text of the right form.
            reason = f'"{text[:20]}" is not {name}, which its YAML tag {_short(node.tag)} requires'
            self._refuse(path, reason, _NO_TAG)
            return None
        try:
            value = self._loader.construct_object(node)
        except ValueError:
            # Python does not convert more than 4,300 digits.
            value = math.inf
        if isinstance(value, float) and not math.isfinite(value):
            # YAML's 1e999 is infinite as a Python float, which JSON does not have.
            self._refuse(path, "the number is too large", "write a smaller number")
            return None
        self.written[path] = text
        return value  # type: ignore[no-any-return]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        # Own keys override merged ones (`<<`), so only own keys can be duplicates.
        own: dict[str, list[int]] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                line = key_node.start_mark.line + 1
                raise NotReadable(
                    f":{line}: a key must be a string, not a list or mapping; {NO_TEMPLATES}"
                )
            if key_node.tag != "tag:yaml.org,2002:merge":
                own.setdefault(key_node.value, []).append(key_node.start_mark.line + 1)
        if len(own) < len(node.value):
            self._loader.flatten_mapping(node)
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            mapping[key] = self.value(value_node, (*path, key), key_node.start_mark.line + 1)
        for key, lines in own.items():
            if len(lines) > 1:
                self._duplicate((*path, key), lines[0])
        return mapping

    def _duplicate(self, path: Path, other_line: int) -> None:
        self.problems.append(
            Problem(
                path=path,
                reason="duplicate key",
                instead=f"remove one: the other is on line {other_line}",
                source="YAML 1.2 specification, unique keys",
                in_key=True,
            )
        )

    def _refuse(
        self,
        path: Path,
        reason: str,
        instead: str,
        source: str = "YAML 1.2 specification",
        *,
        in_key: bool = False,
    ) -> None:
        self.problems.append(
            Problem(path=path, reason=reason, instead=instead, source=source, in_key=in_key)
        )
        self.unusable.append(path)
