"""A merged fleet as a source of problems: each has the place in the file that it comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.infra.stack_file.layers.merge import (
    EXTENDS,
    Tree,
    Whole,
    expand,
    layers_of,
    merge_fleets,
    origin,
)
from slicewright.infra.stack_file.problem import Path
from slicewright.infra.stack_file.reading.source import Origin, Source

_NOTHING: Final = Whole(0, (), None)


@dataclass(frozen=True)
class LayeredSource(Source):
    """The merged fleet of a stack file and its bases. The last layer is the stack file itself."""

    layers: tuple[Source, ...] = ()
    tree: Tree = _NOTHING

    @property
    def written(self) -> Any:
        """The value in the stack file itself, as the engine passes it."""
        return self.layers[-1].raw

    def origin(self, path: Path, *, file: str = "") -> Origin:
        if file:
            return Origin(next(layer for layer in self.layers if layer.name == file), path)
        layer, layer_path = origin(self.tree, path)
        return Origin(self.layers[layer], layer_path)

    def position(self, path: Path, *, key: bool = False) -> tuple[int, int] | None:
        at = self.origin(path)
        return at.source.position(at.path, key=key)

    def as_written(self, path: Path) -> str | None:
        at = self.origin(path)
        return at.source.as_written(at.path)

    def files_of(self, path: Path) -> tuple[str, ...]:
        """The names of the files that contribute to the value at `path`, the bases first."""
        return tuple(self.layers[layer].name for layer in sorted(layers_of(self.tree, path)))


def layered(layers: Sequence[Source]) -> LayeredSource:
    """The fleets of the layers in one; later ones win, and the last is the stack file's."""
    tree = merge_fleets([layer.raw for layer in layers])
    fleet = expand(tree, [layer.unusable for layer in layers])
    stack = layers[-1]
    return LayeredSource(
        stack.name,
        fleet.value,
        stack.nodes,
        tuple(
            dataclasses.replace(problem, file=layer.name)
            for layer in layers
            for problem in layer.problems
        ),
        fleet.unusable,
        stack.config,
        tuple(layers),
        tree,
    )


def has_bases(source: Source) -> bool:
    """True if the fleet has a readable key `extends`."""
    return (
        isinstance(source.raw, dict)
        and EXTENDS in source.raw
        and not any(path[:1] == (EXTENDS,) for path in source.unusable)
    )
