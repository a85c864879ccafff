"""All states of a GPU family, computed once: sets of placements, and the layouts that they form.

A placement is a kind of instance at a start. A set of placements is valid if no two overlap in
memory slots, and compute slices and media engines suffice. Every subset of a valid set is valid, so
adding one placement at a time finds them all: 2319 sets and 128 layouts on seven-slice GPUs,
including the empty set and layout. `Table` has the profile names of a GPU model.

A set is an integer with one bit per placement. A layout, a multiset of kinds, is an integer with
four bits per kind, so that adding an instance is an addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property

from slicewright.infra.catalog import Family, Kind

BITS = 4
MOST = (1 << BITS) - 1
"""The largest count of a kind in a packed layout. No GPU has more than 7 instances."""
_BUDGET_BITS = 8
"""Bits per count of compute slices or media engines in a packed budget. The highest bit is set, and
subtracting more than the budget clears it. Every GPU's counts fit into the lower bits.
"""


def creation_rank(kind: Kind) -> tuple[int, int, int, str]:
    """Sort key of an order of creation: descending by memory, then compute, then media engines.

    In this order every layout can be created even if the driver chooses the placements. On the
    seven-slice family this requires that it tries a 3g at 4 before 0 and a double-memory 1g at 6
    first, as drivers do. 2g and 1g may go anywhere (tests/infra/geometry/test_layouts.py tries
    all).
    """
    return -kind.size, -kind.compute, -sum(kind.engines.values()), kind.kind


class States:
    """All states of one family. `states_of` caches them."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.kinds = tuple(sorted(family.kinds.values(), key=creation_rank))
        self.units = tuple(1 << BITS * i for i in range(len(self.kinds)))
        self.placements = tuple(
            (i, start)
            for i, kind in enumerate(self.kinds)
            for start in sorted(kind.starts, reverse=True)
        )
        """Bit -> index of the kind, and start. Order of creation, then descending start."""
        self.sets: dict[int, int] = {}
        """Set of placements -> its layout. A layout's first set has the highest starts."""
        self.weights: dict[int, int] = {}
        """Set of placements -> compute and memory slots, as one number to order by. On every family
        the subset to keep that has the most of these also has the most instances.
        """
        self.used_slots: dict[int, tuple[int, int]] = {}
        """Set of placements -> used memory slots as bits, and the remaining compute slices and
        media engines, packed.
        """
        self._grow()

    @cached_property
    def realizations(self) -> Mapping[int, tuple[int, ...]]:
        """Layout -> the sets of placements that form it, highest starts first."""
        sets_of: dict[int, list[int]] = {}
        for placements, layout in self.sets.items():
            sets_of.setdefault(layout, []).append(placements)
        return {layout: tuple(sets) for layout, sets in sets_of.items()}

    @cached_property
    def counts(self) -> Mapping[int, tuple[int, ...]]:
        """Layout -> instances per kind, in the order of `kinds`."""
        return {
            layout: tuple(layout >> BITS * i & MOST for i in range(len(self.kinds)))
            for layout in self.realizations
        }

    @cached_property
    def maximal(self) -> tuple[int, ...]:
        """Layouts that have no room for another instance."""
        return tuple(
            layout
            for layout in self.realizations
            if all(layout + unit not in self.realizations for unit in self.units)
        )

    def additions(self, placements: int) -> frozenset[int]:
        """Every layout that fits in addition to a valid set, including the empty layout."""
        # Depends only on the resources in use, which many sets have in common.
        resources = self.used_slots[placements]
        layouts = self._additions.get(resources)
        if layouts is None:
            fitting = {0}
            for i, (kind, _) in enumerate(self.placements):
                more = placements | 1 << i
                if more != placements and more in self.sets:
                    fitting.update([self.units[kind] + layout for layout in self.additions(more)])
            layouts = self._additions[resources] = frozenset(fitting)
        return layouts

    @cached_property
    def _additions(self) -> dict[tuple[int, int], frozenset[int]]:
        return {}

    def _grow(self) -> None:
        engines = tuple(self.family.engines)
        kinds = [self.kinds[kind] for kind, _ in self.placements]
        units = [self.units[kind] for kind, _ in self.placements]
        slots = [
            (1 << kind.size) - 1 << start
            for kind, (_, start) in zip(kinds, self.placements, strict=True)
        ]
        costs = [
            _packed((kind.compute, *(kind.engines.get(engine, 0) for engine in engines)))
            for kind in kinds
        ]
        weights = [kind.compute << 8 | kind.size for kind in kinds]
        not_overdrawn = _packed([1 << _BUDGET_BITS - 1] * (1 + len(engines)))

        def grow(
            first: int, placements: int, layout: int, worth: int, used: int, budget_left: int
        ) -> None:
            self.sets[placements] = layout
            self.weights[placements] = worth
            self.used_slots[placements] = used, budget_left
            for i in range(first, len(kinds)):
                if used & slots[i]:
                    continue
                rest = budget_left - costs[i]
                if rest & not_overdrawn == not_overdrawn:
                    grow(
                        i + 1,
                        placements | 1 << i,
                        layout + units[i],
                        worth + weights[i],
                        used | slots[i],
                        rest,
                    )

        budget = _packed((self.family.compute, *self.family.engines.values()))
        grow(0, 0, 0, 0, 0, budget | not_overdrawn)


def _packed(counts: Iterable[int]) -> int:
    return sum(count << _BUDGET_BITS * i for i, count in enumerate(counts))


@cache
def states_of(family: Family) -> States:
    return States(family)


def bits(number: int) -> Iterator[int]:
    """The bits of a set, in ascending order."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
