"""What still fits beside instances that stay where they are, and what their places cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from infra.catalog import Family, Gpu
from infra.geometry.states import MOST, States, states_of
from infra.geometry.table import Layout, Placement, table_of


@dataclass(frozen=True, kw_only=True)
class Room:
    """Room on a GPU in use."""

    each: Mapping[str, int]
    """Profile -> how many more fit, if nothing else is added."""
    if_moved: Mapping[str, int]
    """The same, if the instances in use could be moved: the difference is what fragmentation
    costs.
    """
    maximal: tuple[Layout, ...]
    """The largest additions; an empty GPU's are its maximal layouts, a full GPU has none."""
    free_slots: tuple[int, ...]
    """Memory slots that nobody has."""


def room(gpu: Gpu, in_use: Iterable[Placement]) -> Room:
    """Raises LayoutError where `in_use` cannot be."""
    table = table_of(gpu)
    states, there = table.states, table.set_of(in_use)
    known, additions = _rooms_of(states.family), states.additions(there)
    return Room(
        each=dict(zip(table.names, known.each[additions], strict=True)),
        if_moved=dict(zip(table.names, known.if_moved[states.sets[there]], strict=True)),
        maximal=tuple([table.layouts[more] for more in known.maximal[additions]]),
        free_slots=known.free_slots[states.taken[there][0]],
    )


class _Rooms:
    """All answers of a family, in its own numbers: many sets of places leave room for the same."""

    def __init__(self, states: States) -> None:
        units, layouts = states.units, states.realisations
        larger = {
            layout: [layout + unit for unit in units if layout + unit in layouts]
            for layout in layouts
        }
        rooms = {states.additions(places) for places in states.sets}
        self.maximal = {
            room: tuple(sorted(more for more in room if more and room.isdisjoint(larger[more])))
            for room in rooms
        }
        self.each = {room: tuple(_longest(room, 0, unit) for unit in units) for room in rooms}
        self.if_moved = {
            used: tuple(_longest(layouts, used, unit) for unit in units) for used in layouts
        }
        self.free_slots = {
            mask: tuple(slot for slot in range(states.family.slots) if not mask >> slot & 1)
            for mask in {taken[0] for taken in states.taken.values()}
        }


@cache
def _rooms_of(family: Family) -> _Rooms:
    return _Rooms(states_of(family))


def _longest(accepted: frozenset[int] | Mapping[int, object], start: int, unit: int) -> int:
    return next(n for n in range(MOST) if start + (n + 1) * unit not in accepted)
