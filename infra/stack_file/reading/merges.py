"""The keys of a mapping, including keys merged by `<<`. Each mapping is resolved once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from slicewright.infra.stack_file.reading.not_readable import NotReadable

MERGE = "<<"
"""The key that merges. The engine's YAML library accepts it in quotes, too."""
Entry = tuple[yaml.ScalarNode, yaml.Node]
_MAX_MERGED = 200_000
"""Keys in all merges of a file. 1,000 pools that merge 20 keys each have 20,000."""
_MAX_DEPTH = 60
_NOT_A_MAPPING = "the value of << must be an alias of a mapping, or a list of these"


class Merges:
    """Resolves merges. Explicit keys win, then earlier mappings. Source: YAML's merge key type."""

    def __init__(self) -> None:
        self._resolved: dict[int, Mapping[str, Entry]] = {}
        self._open: list[int] = []
        self._merged = 0

    def resolve(self, node: yaml.MappingNode) -> Mapping[str, Entry]:
        """Key -> its nodes. Raises NotReadable with a message that starts with `:LINE:COLUMN`."""
        entries = self._resolved.get(id(node))
        if entries is None:
            if id(node) in self._open or len(self._open) > _MAX_DEPTH:
                problem = (
                    "merges itself (<<)"
                    if id(node) in self._open
                    else f"merges (<<) more than {_MAX_DEPTH} mappings within each other"
                )
                raise NotReadable(f"{position_suffix(node)}: {problem}; write the keys")
            self._open.append(id(node))
            entries = self._resolved[id(node)] = self._merge(node)
            self._open.pop()
        return entries

    def _merge(self, node: yaml.MappingNode) -> Mapping[str, Entry]:
        if all(key.value != MERGE for key, _ in node.value):
            return {key.value: (key, value) for key, value in node.value}
        entries: dict[str, Entry] = {}
        merged: list[yaml.MappingNode] = []
        for key, value in node.value:
            if key.value == MERGE:
                merged += _merged_mappings(value)
            else:
                entries[key.value] = (key, value)
        for mapping in merged:
            for name, entry in self.resolve(mapping).items():
                self._merged += 1
                entries.setdefault(name, entry)
            if self._merged > _MAX_MERGED:
                raise NotReadable(
                    f"{position_suffix(node)}: merges (<<) more than {_MAX_MERGED} keys in total; "
                    "use fewer merges"
                )
        return entries


def _merged_mappings(value: yaml.Node) -> Iterator[yaml.MappingNode]:
    for node in value.value if isinstance(value, yaml.SequenceNode) else (value,):
        if not isinstance(node, yaml.MappingNode):
            raise NotReadable(f"{position_suffix(value)}: {_NOT_A_MAPPING}")
        yield node


def position_suffix(node: yaml.Node) -> str:
    """`:LINE:COLUMN` of a node, counted from 1."""
    return f":{node.start_mark.line + 1}:{node.start_mark.column + 1}"
