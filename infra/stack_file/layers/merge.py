"""Merges fleets from several files, and remembers the file and the path of every value.

A layer is the fleet of one file. Values that only one layer has stay whole: the tree branches only
where two layers meet, so a fleet of 1,000 pools costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slicewright.infra.stack_file.problem import Path

EXTENDS: Final = "extends"
"""The key that names the base files. It is no part of the merged fleet."""
NAMED_LISTS: Final = frozenset(
    {
        ("node_pools",),
        ("hosts",),
        ("workloads",),
        ("demand", "classes"),
        ("cluster", "maintenance", "exclusions"),
    }
)
"""Lists whose items have unique names: items of the same name merge. Other lists replace."""


@dataclass(frozen=True)
class Whole:
    """A value that one layer alone decides, with everything below it."""

    layer: int
    path: Path
    """The path in the layer's own file."""
    value: Any


@dataclass(frozen=True)
class Branch:
    """A mapping that several layers have. Layer and path are the last one's."""

    layer: int
    path: Path
    children: dict[str, Tree]


@dataclass(frozen=True)
class NamedItems:
    """A list of named items that several layers have. Layer and path are the last one's."""

    layer: int
    path: Path
    items: tuple[Tree, ...]


Tree = Whole | Branch | NamedItems


@dataclass(frozen=True)
class MergedFleet:
    """The merged value, and the paths of its unreadable values."""

    value: Any
    unusable: frozenset[Path]


def merge_fleets(fleets: Sequence[dict[str, Any]]) -> Tree:
    """The merged fleets; later ones win. Null stays in the tree, and is left out by `expand`."""
    trees = [
        Branch(i, (), {k: Whole(i, (k,), v) for k, v in fleet.items() if k != EXTENDS})
        for i, fleet in enumerate(fleets)
    ]
    merged: Tree = trees[0]
    for tree in trees[1:]:
        merged = _merge(merged, tree, ())
    return merged


def _merge(lower: Tree, upper: Tree, keys: tuple[str, ...]) -> Tree:
    """keys: the path without the positions in lists."""
    below, above = _children(lower), _children(upper)
    if below is not None and above is not None:
        merged = dict(below)
        for key, child in above.items():
            merged[key] = _merge(merged[key], child, (*keys, key)) if key in merged else child
        return Branch(upper.layer, upper.path, merged)
    if keys in NAMED_LISTS:
        lower_items, upper_items = _items(lower), _items(upper)
        if lower_items is not None and upper_items is not None:
            items = _merge_items(lower_items, upper_items, keys)
            return NamedItems(upper.layer, upper.path, items)
    return upper


def _merge_items(
    lower: Sequence[Tree], upper: Sequence[Tree], keys: tuple[str, ...]
) -> tuple[Tree, ...]:
    """The items of `lower` in their order, then the new ones of `upper`.

    An item without a name, or with a name that its own list has twice, stays an item of its own:
    the checks of the merged fleet report it.
    """
    items = list(lower)
    places: dict[str, int] = {}
    for i, item in enumerate(lower):
        if (name := _name(item)) is not None:
            places.setdefault(name, i)
    for item in upper:
        name = _name(item)
        place = None if name is None else places.pop(name, None)
        if place is None:
            items.append(item)
        else:
            items[place] = _merge(items[place], item, (*keys, "[]"))
    return tuple(items)


def _children(tree: Tree) -> dict[str, Tree] | None:
    match tree:
        case Branch():
            return tree.children
        case Whole(value=dict() as value):
            return {key: Whole(tree.layer, (*tree.path, key), v) for key, v in value.items()}
        case _:
            return None


def _items(tree: Tree) -> Sequence[Tree] | None:
    match tree:
        case NamedItems():
            return tree.items
        case Whole(value=list() as value):
            return [Whole(tree.layer, (*tree.path, i), v) for i, v in enumerate(value)]
        case _:
            return None


def _name(item: Tree) -> str | None:
    match item:
        case Branch(children={"name": Whole(value=str() as name)}):
            return name
        case Whole(value={"name": str() as name}):
            return name
        case _:
            return None


def origin(tree: Tree, path: Path) -> tuple[int, Path]:
    """The layer that decides the value at `path`, and the value's path in that layer."""
    for i, step in enumerate(path):
        match tree:
            case Branch(children=children) if step in children:
                tree = children[str(step)]
            case NamedItems(items=items) if isinstance(step, int) and 0 <= step < len(items):
                tree = items[step]
            case NamedItems():
                return tree.layer, tree.path  # its positions count in the merged list only
            case _:
                return tree.layer, (*tree.path, *path[i:])
    return tree.layer, tree.path


def layers_of(tree: Tree, path: Path) -> frozenset[int]:
    """The layers that contribute to the value at `path`."""
    for step in path:
        match tree:
            case Branch(children=children) if step in children:
                tree = children[str(step)]
            case NamedItems(items=items) if isinstance(step, int) and 0 <= step < len(items):
                tree = items[step]
            case _:
                break
    return frozenset(_layers(tree))


def _layers(tree: Tree) -> Iterator[int]:
    match tree:
        case Branch(children=children) if children:
            for child in children.values():
                yield from _layers(child)
        case NamedItems(items=items) if items:
            for item in items:
                yield from _layers(item)
        case _:
            yield tree.layer


def expand(tree: Tree, unusable: Sequence[frozenset[Path]]) -> MergedFleet:
    """The value of the tree, without keys whose value is null.

    unusable: for each layer the paths of its unreadable values, which are None too, but stay.
    """
    expansion = _Expansion(unusable)
    value = expansion.tree_value(tree, ())
    return MergedFleet(value, frozenset(expansion.merged_unusable))


@dataclass
class _Expansion:
    unusable: Sequence[frozenset[Path]]
    merged_unusable: set[Path] = field(default_factory=set)

    def tree_value(self, tree: Tree, at: Path) -> Any:
        match tree:
            case Branch(children=children):
                return {
                    key: self.tree_value(child, (*at, key))
                    for key, child in children.items()
                    if not self._is_removed(child)
                }
            case NamedItems(items=items):
                return [self.tree_value(item, (*at, i)) for i, item in enumerate(items)]
            case Whole():
                return self._plain(tree, at)

    def _plain(self, whole: Whole, at: Path) -> Any:
        children, items = _children(whole), _items(whole)
        if children is not None:
            return self.tree_value(Branch(whole.layer, whole.path, children), at)
        if items is not None:
            return [self.tree_value(item, (*at, i)) for i, item in enumerate(items)]
        if whole.value is None and whole.path in self.unusable[whole.layer]:
            self.merged_unusable.add(at)
        return whole.value

    def _is_removed(self, child: Tree) -> bool:
        return (
            isinstance(child, Whole)
            and child.value is None
            and child.path not in self.unusable[child.layer]
        )
