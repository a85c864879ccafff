"""YAML to values as the Pulumi engine reads it, with the line of everything, and what is wrong with
the YAML itself.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from infra.spec.problem import Path, Problem

_MOST_VALUES = 200_000
"""Far more than 1,000 pools; aliases of aliases can stand for billions."""
_DEEPEST = 60
"""Levels of nesting; a stack file has ten."""
_TOO_DEEP = f"is nested more than {_DEEPEST} levels deep"
_BEARABLE = 5000
"""Levels. The parser recurses, and in C nothing stops it: measured, it ends the process somewhere
beyond 20,000.
"""
TEMPLATE = "variables and templates are not filled in here; write the value"


class NotReadable(Exception):
    """The stack file is not there, or is no YAML. The message says which, and where."""


# libyaml reads 200 pools in a tenth of the time; a PyYAML built without it reads them too.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


_PLAIN_TAGS = {
    yaml.ScalarNode: "tag:yaml.org,2002:str",
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
    yaml.MappingNode: "tag:yaml.org,2002:map",
}


class Loader(_Base):  # type: ignore[misc]
    """YAML as the Pulumi engine reads it: `yes`, `on`, `12:30` and dates are text, not booleans,
    numbers and times.
    """

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> Any:
        """As inherited, without what only other YAML has: it is asked for every node, and was a
        third of the reading.
        """
        if kind is yaml.ScalarNode and implicit[0]:
            for tag, pattern in self.yaml_implicit_resolvers.get(value[:1], ()):
                if pattern.match(value):
                    return tag
        return _PLAIN_TAGS[kind]


Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("merge", r"^(?:<<)$", "<"),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list(_first))


def check_depth(text: str, name: str) -> None:
    """Refuses what the parser could not bear. What it can bear and is still no stack file, `Reader`
    refuses.
    """
    brackets, indented = (
        text.count("[") + text.count("{"),
        max(map(len, re.findall(r"^[ ?-]*", text, re.MULTILINE))),
    )
    # Each bracket is a level at most, each column two: a list may stand below its key without
    # indentation.
    if brackets + 2 * indented < _BEARABLE:
        return
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _BEARABLE:
                raise NotReadable(
                    f"{name}:{event.start_mark.line + 1 if event.start_mark else 0}: {_TOO_DEEP}"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class Reader:
    """YAML nodes to values, with the lines of every path."""

    def __init__(self) -> None:
        self.lines: dict[Path, tuple[int, int]] = {}
        self.written: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self.unusable: list[Path] = []
        self._loader = Loader("")
        self._inside: set[int] = set()
        """Nodes whose values are being read, by identity: the tree keeps them all."""

    def value(self, node: yaml.Node, path: Path, key_line: int) -> Any:
        if len(self.lines) > _MOST_VALUES:
            raise NotReadable(
                f": has more than {_MOST_VALUES} values once its aliases are written out; "
                "write what is meant"
            )
        if len(path) > _DEEPEST:
            raise NotReadable(f":{node.start_mark.line + 1}: {_TOO_DEEP}")
        self.lines[path] = (key_line, node.start_mark.line + 1)
        if id(node) in self._inside:
            self._refuse(
                path, "an alias points to what it stands in", "write the value out", in_key=True
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
                f"{text[:20]}: some programs read a number with a leading 0 as octal, "
                "others as decimal",
                f'write {text.lstrip("+-0")[:20] or 0}, or in quotes "{text[:20]}" if it is text',
                "YAML 1.1 and 1.2 differ",
            )
            return None
        try:
            value = self._loader.construct_object(node)
        except ValueError:
            # Python turns no text of more than 4,300 digits into a number.
            value = math.inf
        except yaml.YAMLError:
            value = node
        if isinstance(value, float) and not math.isfinite(value):
            # 1e999 is a float to YAML and infinite to Python; JSON has no such number.
            self._refuse(path, "a number is too large", "write one that a machine can count to")
            return None
        if value is None or isinstance(value, int | float | bool):
            self.written[path] = text
            return value
        self._refuse(
            path, f"the tag {node.tag} has no place in a stack file", "write the plain value"
        )
        return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        # What a merge (`<<`) brings may be said again, and is then overruled.
        own: dict[str, list[int]] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                line = key_node.start_mark.line + 1
                raise NotReadable(
                    f":{line}: a key is a list or a mapping; keys of a stack file are "
                    f"words, and {TEMPLATE}"
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
                instead = f"keep one; the other is in line {lines[0]}"
                self._twice((*path, key), instead)
        return mapping

    def _twice(self, path: Path, instead: str) -> None:
        reason, source = "the key is there twice", "YAML 1.2 specification, unique keys"
        self.problems.append(
            Problem(path=path, reason=reason, instead=instead, source=source, in_key=True)
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
