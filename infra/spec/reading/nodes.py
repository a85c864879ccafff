"""The YAML nodes of a fleet, found by path: where a value stands, and how it is written.

Only a file with problems asks. To note the positions of all values while they are read took a third
of the time of reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from infra.spec.problem import Path
from infra.spec.reading import scalars
from infra.spec.reading.merges import MERGE, Merges
from infra.spec.reading.scalars import Kind
from infra.spec.reading.yaml_reader import PLAIN, has_own_tag


class Entry(NamedTuple):
    """A key and its value; an item of a list is both."""

    key: yaml.Node
    value: yaml.Node


@dataclass(frozen=True)
class Nodes:
    """Of a fleet: of the key that it stands under in the file, and of its value."""

    key: yaml.Node
    root: yaml.Node
    merges: Merges

    def position(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Line and column, counted from 1, of the key or value at `path`, or else of the key of
        its closest parent in the file.
        """
        entries = list(self._entries(path))
        entry = entries[-1]
        mark = (entry.key if key or len(entries) <= len(path) else entry.value).start_mark
        return mark.line + 1, mark.column + 1

    def as_written(self, path: Path) -> str | None:
        """The text of a number, boolean or null; None where there is no such value."""
        entries = list(self._entries(path))
        node = entries[-1].value
        if len(entries) <= len(path) or not isinstance(node, yaml.ScalarNode) or node.tag != PLAIN:
            return None
        return node.value if scalars.resolve(node.value).kind is Kind.VALUE else None

    def _entries(self, path: Path) -> Iterator[Entry]:
        """The fleet itself, and what is at each step of the path, as far as the file has it."""
        entry = Entry(self.key, self.root)
        yield entry
        above: set[int] = set()
        for step in path:
            node = entry.value
            # What is below such a node was refused with it.
            if has_own_tag(node) or id(node) in above:
                return
            above.add(id(node))
            found = self._child(node, step)
            if found is None:
                return
            entry = found
            yield entry

    def _child(self, node: yaml.Node, step: str | int) -> Entry | None:
        if isinstance(node, yaml.SequenceNode):
            if isinstance(step, int) and 0 <= step < len(node.value):
                return Entry(node.value[step], node.value[step])
        elif isinstance(node, yaml.MappingNode):
            if step == MERGE:  # not among the entries; of several, the last
                keys = [key for key, _ in node.value if key.value == MERGE]
                return Entry(keys[-1], keys[-1]) if keys else None
            entry = self.merges.resolve(node).get(str(step))
            return Entry(*entry) if entry else None
        return None
