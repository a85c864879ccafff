"""Reads YAML like the Pulumi engine, with positions, and reports problems of the YAML itself."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading import scalars
from slicewright.infra.stack_file.reading.formatting import shorten
from slicewright.infra.stack_file.reading.merges import MERGE, Entry, Merges, position_suffix
from slicewright.infra.stack_file.reading.not_readable import NotReadable
from slicewright.infra.stack_file.reading.scalars import Kind

_MAX_VALUES = 200_000
"""Far more than the values of 1,000 pools. Nested aliases can expand to billions."""
_MAX_DEPTH = 60
"""Levels of nesting. A stack file has about ten."""
_TOO_DEEP = f"is nested more than {_MAX_DEPTH} levels deep"
_MAX_PARSER_DEPTH = 5000
"""libyaml recurses without a limit. In a measurement, it crashed beyond 20,000 levels."""
NO_TEMPLATES = "variables and templates are not expanded in stack files; write the value"
# Indentation follows any line break of YAML 1.1, which libyaml supports.
_INDENTATION = re.compile("(?<![^\n\r\x85\u2028\u2029])[ ?:-]+")
_NO_TAG = "write the value without a tag"

# libyaml needs a tenth of the time. PyYAML may be built without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

PLAIN = "plain"
"""The tag of a scalar without quotes and tag. `scalars.resolve` interprets it."""
_PREFIX = "tag:yaml.org,2002:"
_STRING = f"{_PREFIX}str"
_SCALAR = yaml.ScalarNode
_TAGS = {
    _SCALAR: _STRING,
    yaml.SequenceNode: f"{_PREFIX}seq",
    yaml.MappingNode: f"{_PREFIX}map",
}


class Loader(_Base):  # type: ignore[misc]
    """Composes nodes. Plain scalars are interpreted later."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> Any:
        """The tag of a node without a tag in the file."""
        if kind is _SCALAR and implicit[0]:
            return PLAIN
        return _TAGS[kind]

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Does nothing. PyYAML calls it for every node, but no resolver depends on the path."""

    def ascend_resolver(self) -> None:
        """Does nothing, like `descend_resolver`."""


def check_depth(text: str, name: str) -> None:
    """Refuses nesting that would crash the parser. `Reader` refuses more than `_MAX_DEPTH`."""
    if _deepest(text) < _MAX_PARSER_DEPTH:
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


def _deepest(text: str) -> int:
    """An upper bound of the levels of nesting, computed in a fraction of the parsing time.

    A column of indentation is at most two levels, because a list may start in the column of its
    key. A bracket is a level. If it is closed on its line, it counts for that line only, unless the
    line may have quotes or a comment. Most files have too few brackets to matter.
    """
    brackets = text.count("[") + text.count("{")
    indentation = max(map(len, _INDENTATION.findall(text)), default=0)
    if brackets + 2 * (indentation + 1) < _MAX_PARSER_DEPTH:
        return brackets + 2 * (indentation + 1)
    open_at_end, on_one_line = 0, 0
    for line in text.splitlines():
        opened = line.count("[") + line.count("{")
        if opened:
            certain = "'" not in line and '"' not in line and "#" not in line
            closed = line.count("]") + line.count("}") if certain else 0
            open_at_end += max(0, opened - closed)
            on_one_line = max(on_one_line, opened)
    return open_at_end + on_one_line + 2 * (indentation + 1)


def has_own_tag(node: yaml.Node) -> bool:
    """True if a list or mapping has a tag in the file."""
    return not isinstance(node, yaml.ScalarNode) and node.tag != _TAGS[type(node)]


class Reader:
    """Converts YAML nodes to values and records problems by path."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.unusable: list[Path] = []
        self.merges = Merges()
        self._read = 0
        """Number of values read. An alias counts each time."""
        self._at: list[str | int] = []
        """The path of the current value, in a single list: a path per value would take time."""
        self._inside: set[int] = set()
        """Ids of the nodes that are being read."""
        self._strings: set[str] = set()
        """Keys that are strings without quotes."""

    def value(self, node: yaml.Node) -> Any:
        """The node's value. Raises NotReadable with a message that starts with the position."""
        if self._read > _MAX_VALUES:
            raise NotReadable(
                f": has more than {_MAX_VALUES} values when its aliases are expanded; "
                "use fewer aliases"
            )
        self._read += 1
        if len(self._at) > _MAX_DEPTH:
            raise NotReadable(f"{position_suffix(node)}: {_TOO_DEEP}")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if has_own_tag(node):
            return self._refuse(f"the YAML tag {_short(node.tag)} is not supported", _NO_TAG)
        if id(node) in self._inside:
            return self._refuse(
                "the alias is part of the value that it refers to",
                "write the value",
                in_key=True,
            )
        self._inside.add(id(node))
        value = self._mapping(node) if isinstance(node, yaml.MappingNode) else self._list(node)
        self._inside.discard(id(node))
        return value

    def _scalar(self, node: yaml.ScalarNode) -> scalars.Value:
        text: str = node.value
        if node.tag == _STRING:
            return text
        if node.tag != PLAIN:
            self._refuse(f"the YAML tag {_short(node.tag)} is not supported", _NO_TAG)
            return None
        scalar = scalars.resolve(text)
        if scalar.kind is Kind.MERGE:
            return text
        if scalar.kind is not Kind.STRING and scalar.kind is not Kind.VALUE:
            self._refuse(*_remedy(text, scalar))
        return scalar.value

    def _list(self, node: yaml.Node) -> list[Any]:
        values = []
        self._at.append(0)
        for i, item in enumerate(node.value):
            self._at[-1] = i
            values.append(self.value(item))
        self._at.pop()
        return values

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        entries: dict[str, Entry] = {}
        for entry in node.value:
            key_node = entry[0]
            if not isinstance(key_node, yaml.ScalarNode):
                raise NotReadable(
                    f"{position_suffix(key_node)}: a key must be a string, not a list or mapping; "
                    f"{NO_TEMPLATES}"
                )
            entries[key_node.value] = entry
        if len(entries) < len(node.value):
            self._report_duplicates(node)
        if MERGE in entries:
            entries = dict(self.merges.resolve(node))
        mapping: dict[str, Any] = {}
        self._at.append("")
        for key, (key_node, value_node) in entries.items():
            self._at[-1] = key
            mapping[key] = self.value(value_node)
            if key_node.tag != _STRING and not (key_node.tag == PLAIN and key in self._strings):
                self._check_key(key_node)
        self._at.pop()
        return mapping

    def _report_duplicates(self, node: yaml.MappingNode) -> None:
        first: dict[str, int] = {}
        duplicates: set[str] = set()
        for key_node, _ in node.value:
            if key_node.value in first:
                duplicates.add(key_node.value)
            first.setdefault(key_node.value, key_node.start_mark.line + 1)
        for key in sorted(duplicates):
            self._duplicate((*self._at, key), first[key])

    def _check_key(self, node: yaml.ScalarNode) -> None:
        """Refuses a key that the engine would pass on as a different text."""
        text: str = node.value
        if node.tag != PLAIN:
            reason, instead = f"the YAML tag {_short(node.tag)} is not supported", _NO_TAG
        else:
            scalar = scalars.resolve(text)
            if scalar.kind is Kind.STRING:
                self._strings.add(text)
                return
            if scalar.value is not None and json.dumps(scalar.value) == text:
                return  # 8 and true: the engine writes them unchanged
            reason = "the key is not a string in YAML"
            instead = f"write {json.dumps(text, ensure_ascii=False)} in quotes"
        self.problems.append(
            Problem(
                code="yaml-key",
                path=tuple(self._at),
                reason=reason,
                instead=instead,
                source="YAML 1.1 and 1.2 specifications",
                in_key=True,
            )
        )

    def _duplicate(self, path: Path, other_line: int) -> None:
        self.problems.append(
            Problem(
                code="duplicate-key",
                path=path,
                reason="duplicate key",
                instead=f"remove one: the other is on line {other_line}",
                source="YAML 1.2 specification, unique keys",
                in_key=True,
            )
        )

    def _refuse(
        self,
        reason: str,
        instead: str,
        source: str = "YAML 1.2 specification",
        *,
        in_key: bool = False,
    ) -> None:
        path = tuple(self._at)
        self.problems.append(
            Problem(
                code="yaml-value",
                path=path,
                reason=reason,
                instead=instead,
                source=source,
                in_key=in_key,
            )
        )
        self.unusable.append(path)


def _remedy(text: str, scalar: scalars.Scalar) -> tuple[str, str, str]:
    """Reason, remedy and source for a plain scalar that Pulumi would read differently."""
    short = shorten(text, 30)
    quoted = f"{json.dumps(text, ensure_ascii=False) if short == text else 'it'} in quotes"
    match scalar.kind:
        case Kind.LEADING_ZERO:
            return (
                f"{short} is ambiguous: YAML 1.1 reads a number with a leading 0 as octal, "
                "YAML 1.2 as decimal",
                f"write {short.lstrip('+-0') or 0}, or {quoted} for a string",
                "YAML 1.1 and 1.2 specifications",
            )
        case Kind.NOTATION:
            return (
                f"{short} is the number {scalar.value} in YAML 1.1",
                f"write {scalar.value}, or {quoted} for a string",
                "YAML 1.1 specification, int and float",
            )
        case Kind.TIMESTAMP:
            return (
                f"{short} is a timestamp in YAML 1.1, which Pulumi writes differently",
                f"write {quoted}",
                "YAML 1.1 specification, timestamp",
            )
        case _:
            return (
                f"{short} is too large or not finite: Pulumi does not pass it on exactly",
                f"write a smaller number, or {quoted} for a string",
                "RFC 8259, numbers",
            )


def _short(tag: str) -> str:
    return tag.replace(_PREFIX, "!!")
