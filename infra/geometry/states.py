"""Every legal state of a family's GPUs, worked out once: sets of places, and the layouts (multisets
of kinds) that they realise.

A place is a kind of instance at a start. A set of places is legal where no two overlap in memory
slots, and compute slices and media engines suffice. What is legal stays legal when an instance
goes, so growing one place at a time finds all: on seven-slice GPUs 2319 sets and 128 layouts, the
empty ones among them. What a kind is called on a particular GPU is `Table`'s to say.

Sets are integers, one bit per place. Layouts are integers too, four bits per kind: adding one
instance is one addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property

from infra.catalog import Family, Kind

BITS = 4
MOST = (1 << BITS) - 1
"""No GPU holds more instances of a kind; the catalog's largest is 7."""


def creation_rank(kind: Kind) -> tuple[int, int, int, str]:
    """Large before small: by memory, then compute, then media engines, falling.

    So created, every layout fits even where the driver picks the places. Measured for the
    seven-slice family (planning notes): only if it puts a 3g at 4 before 0 and a double-memory 1g
    at 6 first, as drivers do; 2g and 1g may go anywhere.
    """
    return -kind.size, -kind.compute, -sum(kind.engines.values()), kind.kind


class States:
    """All legal states of one family. Get it with `states_of`, which makes it once."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.kinds = tuple(sorted(family.kinds.values(), key=creation_rank))
        self.units = tuple(1 << BITS * i for i in range(len(self.kinds)))
        self.places = tuple(
            (i, start)
            for i, kind in enumerate(self.kinds)
            for start in sorted(kind.starts, reverse=True)
        )
        """Index of the kind, and start. A lower bit of a set is an earlier kind in the order of
        creation, or a higher start.
        """
        self.sets: dict[int, int] = {}
        """Set of places -> its layout. Of one layout's sets the first takes the highest start for
        each instance in turn.
        """
        self.worths: dict[int, int] = {}
        """Set of places -> how many instances, then compute slices, then memory slots, as one
        number that orders by them.
        """
        self.taken: dict[int, tuple[int, ...]] = {}
        """Set of places -> what it leaves no more of: memory slots as bits, compute slices, media
        engines as counts.
        """
        self._grow()

    @cached_property
    def realisations(self) -> Mapping[int, tuple[int, ...]]:
        """Layout -> the sets of places that realise it, highest starts first."""
        found: dict[int, list[int]] = {}
        for places, layout in self.sets.items():
            found.setdefault(layout, []).append(places)
        return {layout: tuple(sets) for layout, sets in found.items()}

    @cached_property
    def counts(self) -> Mapping[int, tuple[int, ...]]:
        """Layout -> instances per kind, in the order of `kinds`."""
        return {
            layout: tuple(layout >> BITS * i & MOST for i in range(len(self.kinds)))
            for layout in self.realisations
        }

    @cached_property
    def maximal(self) -> tuple[int, ...]:
        """Layouts that no other contains."""
        return tuple(
            layout
            for layout in self.realisations
            if all(layout + unit not in self.realisations for unit in self.units)
        )

    def additions(self, places: int) -> frozenset[int]:
        """Every layout that fits beside a legal set, the empty one among them. Where the same is
        taken, the same fits.
        """
        taken = self.taken[places]
        known = self._additions.get(taken)
        if known is None:
            found = {0}
            for i, (kind, _) in enumerate(self.places):
                more = places | 1 << i
                if more != places and more in self.sets:
                    found.update([self.units[kind] + layout for layout in self.additions(more)])
            known = self._additions[taken] = frozenset(found)
        return known

    @cached_property
    def _additions(self) -> dict[tuple[int, ...], frozenset[int]]:
        return {}

    def _grow(self) -> None:
        family, budgets = self.family, tuple(self.family.engines)
        kinds = [self.kinds[kind] for kind, _ in self.places]
        slots = [
            (1 << kind.size) - 1 << start
            for kind, (_, start) in zip(kinds, self.places, strict=True)
        ]
        costs = [
            (kind.compute, *(kind.engines.get(engine, 0) for engine in budgets)) for kind in kinds
        ]
        worths = [1 << 16 | kind.compute << 8 | kind.size for kind in kinds]
        limits = (family.compute, *family.engines.values())

        def grow(first: int, places: int, layout: int, worth: int, taken: tuple[int, ...]) -> None:
            self.sets[places], self.worths[places], self.taken[places] = layout, worth, taken
            for i in range(first, len(kinds)):
                if taken[0] & slots[i]:
                    continue
                used = tuple(map(int.__add__, taken[1:], costs[i]))
                if all(map(int.__le__, used, limits)):
                    grow(
                        i + 1,
                        places | 1 << i,
                        layout + self.units[self.places[i][0]],
                        worth + worths[i],
                        (taken[0] | slots[i], *used),
                    )

        grow(0, 0, 0, 0, (0,) * (1 + len(limits)))


@cache
def states_of(family: Family) -> States:
    return States(family)


def bits(number: int) -> Iterator[int]:
    """The places of a set, first to last."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
