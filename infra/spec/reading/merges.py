"""Keys of a mapping with those that it merges by `<<`, each mapping resolved once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from infra.spec.reading.not_readable import NotReadable

MERGE = "<<"
"""The key that merges; the engine's YAML library takes it in quotes, too."""
Entry = tuple[yaml.ScalarNode, yaml.Node]
_MAX_MERGED = 200_000
"""Keys over all merges of a file; 1,000 pools that merge 20 keys each have 20,000."""
_MAX_DEPTH = 60
_NOT_A_MAPPING = "the value of << must be an alias of a mapping, or a list of these"


class Merges:
    """Source of the precedence: YAML's merge key type: own keys first, then the earlier mapping."""

    def __init__(self) -> None:
        self._resolved: dict[int, Mapping[str, Entry]] = {}
        self._open: list[int] = []
        self._merged = 0

    def resolve(self, node: yaml.MappingNode) -> Mapping[str, Entry]:
        """Key -> its nodes. Raises NotReadable, its message beginning with `:LINE:COLUMN`."""
        found = self._resolved.get(id(node))
        if found is None:
            if id(node) in self._open or len(self._open) > _MAX_DEPTH:
                what = (
                    "merges itself (<<)"
                    if id(node) in self._open
                    else f"merges (<<) more than {_MAX_DEPTH} mappings within each other"
                )
                raise NotReadable(f"{at(node)}: {what}; write the keys")
            self._open.append(id(node))
            found = self._resolved[id(node)] = self._with_merged(node)
            self._open.pop()
        return found

    def _with_merged(self, node: yaml.MappingNode) -> Mapping[str, Entry]:
        if all(key.value != MERGE for key, _ in node.value):
            return {key.value: (key, value) for key, value in node.value}
        own: dict[str, Entry] = {}
        merged: list[yaml.MappingNode] = []
        for key, value in node.value:
            if key.value == MERGE:
                merged += _merged_by(value)
            else:
                own[key.value] = (key, value)
        for mapping in merged:
            for name, entry in self.resolve(mapping).items():
                self._merged += 1
                own.setdefault(name, entry)
            if self._merged > _MAX_MERGED:
                raise NotReadable(
                    f"{at(node)}: merges (<<) more than {_MAX_MERGED} keys with those before; "
                    "use fewer merges"
                )
        return own


def _merged_by(value: yaml.Node) -> Iterator[yaml.MappingNode]:
    for node in value.value if isinstance(value, yaml.SequenceNode) else (value,):
        if not isinstance(node, yaml.MappingNode):
            raise NotReadable(f"{at(value)}: {_NOT_A_MAPPING}")
        yield node


def at(node: yaml.Node) -> str:
    """`:LINE:COLUMN` of a node, counted from 1."""
    return f":{node.start_mark.line + 1}:{node.start_mark.column + 1}"
