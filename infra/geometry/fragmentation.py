"""What still fits beside instances that stay where they are, and what their places cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from infra.catalog import Gpu
from infra.geometry.table import Layout, Placement, table_of


@dataclass(frozen=True, kw_only=True)
class Room:
    """Room on a GPU in use."""

    each: Mapping[str, int]
    """Profile -> how many more fit, if nothing else is added."""
    if_moved: Mapping[str, int]
    """The same, if the instances in use could be moved: the difference is what fragmentation costs."""
    maximal: tuple[Layout, ...]
    """The largest additions; an empty GPU's are its maximal layouts, a full GPU has none."""
    free_slots: tuple[int, ...]
    """Memory slots that nobody has."""


def room(gpu: Gpu, in_use: Iterable[Placement]) -> Room:
    """Raises LayoutError where `in_use` cannot be."""
    return _room(gpu, table_of(gpu).set_of(in_use))


@lru_cache(maxsize=8192)
def _room(gpu: Gpu, there: int) -> Room:
    table = table_of(gpu)
    additions, used = table.additions(there), table.sets[there]
    each, if_moved = {}, {}
    for name, unit in table.unit.items():
        each[name] = next(n for n in range(16) if (n + 1) * unit not in additions)
        if_moved[name] = next(n for n in range(16) if used + (n + 1) * unit not in table.realisations)
    largest = [more for more in additions if more and all(more + unit not in additions for unit in table.unit.values())]
    taken = {slot for p in table.placed(there) for slot in range(p.start, p.start + p.size)}
    return Room(
        each=each,
        if_moved=if_moved,
        maximal=tuple(table.unpack(more) for more in sorted(largest)),
        free_slots=tuple(slot for slot in range(table.family.slots) if slot not in taken),
    )
