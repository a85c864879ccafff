"""The nearest layout that fits: the one with the fewest instances changed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

from slicewright.infra.catalog import Family, Gpu, Kind
from slicewright.infra.geometry.states import BITS, MOST, States, states_of
from slicewright.infra.geometry.table import Layout, table_of

_MAX_COUNT = 7
"""More of a profile than this never fits, so a larger count has the same answer."""
_TOP = 128


def nearest(gpu: Gpu, layout: Layout) -> Layout:
    """The nearest layout to `wanted` that fits.

    It keeps the most instances unchanged. Among equals it replaces the most other instances by
    smaller ones, then has the most compute, memory and media engines, then keeps larger instances.
    Raises LayoutError for a profile that the GPU does not have.
    """
    table = table_of(gpu)
    packed = table.pack({name: min(count, _MAX_COUNT) for name, count in layout.items()})
    return table.layouts[_search_of(table.states.family).nearest(packed)]


class _Search:
    """A family's layouts in order of preference, in tables that make a search a few additions.

    A lane is a byte of a long integer. Adding two such integers adds all lanes at once. No lane
    exceeds 127, so its top bit can show a borrow.
    """

    def __init__(self, states: States) -> None:
        kinds, counts = states.kinds, states.counts
        each = [(kind.compute, kind.size, sum(kind.engines.values())) for kind in kinds]
        self._worth = {
            layout: tuple(
                -sum(n * worth[i] for n, worth in zip(have, each, strict=True)) for i in range(3)
            )
            for layout, have in counts.items()
        }
        self._ranks = sorted(
            (-sum(have), *self._worth[layout], layout) for layout, have in counts.items()
        )
        self._guards = sum((_MAX_COUNT + 1) << BITS * i for i in range(len(kinds)))

        self._sizes = [rank[0] for rank in self._ranks]
        order = [counts[layout] for *_, layout in self._ranks]
        self._kept_counts = [
            [_lanes([min(count, have[i]) for have in order]) for count in range(_MAX_COUNT + 1)]
            for i in range(len(kinds))
        ]
        """How many of the requested instances each layout has, by kind and requested count."""

        sources = [
            {j for j, large in enumerate(kinds) if shrinks(large, small)}
            for i, small in enumerate(kinds)
        ]
        groups: set[frozenset[int]] = {frozenset()}
        for donors in sources:
            groups |= {group | donors for group in groups}
        self._full = _lanes([_TOP] * len(groups))
        self._gives = [_lanes([i in group for group in groups]) for i in range(len(kinds))]
        takes = [_lanes([donors <= group for group in groups]) for donors in sources]
        # Hall's theorem: the added instances can replace larger ones if no group of kinds has to
        # supply more instances than it has.
        self._supply = {layout: _sum(have, self._gives) for layout, have in counts.items()}
        self._demand = {layout: _sum(have, takes) for layout, have in counts.items()}

    def nearest(self, requested: int) -> int:
        """requested: a packed layout, which need not fit, with at most 7 instances of each kind."""
        counts = [requested >> BITS * i & MOST for i in range(len(self._kept_counts))]
        matches = sum([self._kept_counts[i][n] for i, n in enumerate(counts) if n]).to_bytes(
            len(self._ranks), "little"
        )
        have = self._full + _sum(counts, self._gives)
        most = max(matches)
        # Layouts with more instances than requested would fail the check below. Skipping them is
        # faster.
        position = matches.find(most, bisect_left(self._sizes, -sum(counts)))
        candidates: list[tuple[tuple[int, ...], int]] = []
        rank: tuple[int, ...] = ()
        while position >= 0 and (not candidates or self._ranks[position][:-1] == rank):
            *_, layout = self._ranks[position]
            # Three bits per kind: 111 if at least as many instances are requested as the layout
            # has, else 000.
            enough = (requested | self._guards) - layout & self._guards
            mask = enough - (enough >> 3)
            keeping = layout & mask | requested & ~mask
            spare = have - self._supply[keeping] - self._demand[layout - keeping]
            if spare & self._full == self._full:
                rank = self._ranks[position][:-1]
                candidates.append((self._worth[keeping], layout))
            position = matches.find(most, position + 1)
        # The kept instances alone fit, so there is at least one.
        return min(candidates)[1]


@cache
def _search_of(family: Family) -> _Search:
    return _Search(states_of(family))


def _lanes(values: Sequence[int]) -> int:
    return int.from_bytes(bytes(values), "little")


def _sum(counts: Sequence[int], lanes: Sequence[int]) -> int:
    return sum([n * lane for n, lane in zip(counts, lanes, strict=True) if n])


def shrinks(large: Kind, small: Kind) -> bool:
    """Whether `small` needs no more of any resource than `large`."""
    return (
        small.size <= large.size
        and small.compute <= large.compute
        and small.graphics <= large.graphics
        and all(cost <= large.engines.get(engine, 0) for engine, cost in small.engines.items())
    )
