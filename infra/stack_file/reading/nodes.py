"""The YAML nodes of a fleet by path: the position of a value, and its text in the file.

They are looked up only for files with problems. Recording all positions while reading took a third
of the reading time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from slicewright.infra.stack_file.problem import Path
from slicewright.infra.stack_file.reading import scalars
from slicewright.infra.stack_file.reading.merges import MERGE, Merges
from slicewright.infra.stack_file.reading.scalars import Kind
from slicewright.infra.stack_file.reading.yaml_reader import PLAIN, has_own_tag


class Entry(NamedTuple):
    """A key and its value. An item of a list is both."""

    key: yaml.Node
    value: yaml.Node


@dataclass(frozen=True)
class Nodes:
    """The nodes of a fleet: of its key in the file, and of its value."""

    key: yaml.Node
    root: yaml.Node
    merges: Merges

    def position(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Line and column, counted from 1, of the key or value at `path`. If the file lacks it, of
        the key of its closest parent.
        """
        entries = list(self._entries(path))
        entry = entries[-1]
        mark = (entry.key if key or len(entries) <= len(path) else entry.value).start_mark
        return mark.line + 1, mark.column + 1

    def as_written(self, path: Path) -> str | None:
        """The text of a number, boolean or null, None for every other value."""
        entries = list(self._entries(path))
        node = entries[-1].value
        if len(entries) <= len(path) or not isinstance(node, yaml.ScalarNode) or node.tag != PLAIN:
            return None
        return node.value if scalars.resolve(node.value).kind is Kind.VALUE else None

    def _entries(self, path: Path) -> Iterator[Entry]:
        """The entry of the fleet, then the entry at each step of the path that the file has."""
        entry = Entry(self.key, self.root)
        yield entry
        above: set[int] = set()
        for step in path:
            node = entry.value
            # Values below such a node were refused with it.
            if has_own_tag(node) or id(node) in above:
                return
            above.add(id(node))
            child = self._child(node, step)
            if child is None:
                return
            entry = child
            yield entry

    def _child(self, node: yaml.Node, step: str | int) -> Entry | None:
        if isinstance(node, yaml.SequenceNode):
            if isinstance(step, int) and 0 <= step < len(node.value):
                return Entry(node.value[step], node.value[step])
        elif isinstance(node, yaml.MappingNode):
            if step == MERGE:  # not among the entries, the last of several counts
                keys = [key for key, _ in node.value if key.value == MERGE]
                return Entry(keys[-1], keys[-1]) if keys else None
            entry = self.merges.resolve(node).get(str(step))
            return Entry(*entry) if entry else None
        return None
