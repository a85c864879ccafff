"""Headroom: which layouts still fit on a GPU in use, and how much fragmentation costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from slicewright.infra.catalog import Family, Gpu
from slicewright.infra.geometry.states import MOST, States, states_of
from slicewright.infra.geometry.table import Layout, Placement, table_of


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """The capacity that is left on a GPU in use."""

    each: Mapping[str, int]
    """Profile -> how many more fit if no other profile is added."""
    if_moved: Mapping[str, int]
    """The same if the instances in use could be moved: the difference is due to fragmentation."""
    maximal: tuple[Layout, ...]
    """The largest layouts that fit in addition, none on a full GPU."""
    free_slots: tuple[int, ...]
    """Memory slots that no instance uses."""


def headroom(gpu: Gpu, in_use: Iterable[Placement]) -> Headroom:
    """The headroom on a GPU with instances in use. Raises LayoutError if `in_use` is impossible."""
    table = table_of(gpu)
    states, existing = table.states, table.set_of(in_use)
    answers, additions = _answers_of(states.family), states.additions(existing)
    return Headroom(
        each=dict(zip(table.names, answers.each[additions], strict=True)),
        if_moved=dict(zip(table.names, answers.if_moved[states.sets[existing]], strict=True)),
        maximal=tuple([table.layouts[more] for more in answers.maximal[additions]]),
        free_slots=answers.free_slots[states.used_slots[existing][0]],
    )


class _Answers:
    """Answers of a family by possible additions, as many sets of placements allow the same ones."""

    def __init__(self, states: States) -> None:
        units, layouts = states.units, states.realizations
        larger = {layout: [layout + unit for unit in units] for layout in layouts}
        all_additions = {states.additions(placements) for placements in states.sets}
        self.maximal = {
            fitting: tuple(
                sorted(more for more in fitting if more and fitting.isdisjoint(larger[more]))
            )
            for fitting in all_additions
        }
        self.each = {
            fitting: tuple(max_added(fitting, 0, unit) for unit in units)
            for fitting in all_additions
        }
        self.if_moved = {
            used: tuple(max_added(layouts, used, unit) for unit in units) for used in layouts
        }
        self.free_slots = {
            mask: tuple(slot for slot in range(states.family.slots) if not mask >> slot & 1)
            for mask in {resources[0] for resources in states.used_slots.values()}
        }


@cache
def _answers_of(family: Family) -> _Answers:
    return _Answers(states_of(family))


def max_added(accepted: frozenset[int] | Mapping[int, object], start: int, unit: int) -> int:
    """How many of `unit` can be added to the packed layout `start`."""
    return next(n for n in range(MOST) if start + (n + 1) * unit not in accepted)
