"""What comes nearest to a layout that does not fit: the fewest instances changed, of those the
fewest left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from infra.catalog import Family, Gpu, Kind
from infra.geometry.states import BITS, MOST, States, states_of
from infra.geometry.table import Layout, table_of

_MOST_ASKED = 7
"""More of anything never fits, nor can more be shrunk: the answer is the same."""
_TOP = 128


def nearest(gpu: Gpu, wanted: Layout) -> Layout:
    """The accepted layout that keeps the most instances of `wanted`; of the others the most are
    shrunk instead of left out, then the most compute, memory and media engines stay, and of equals
    the larger instances untouched.

    Raises LayoutError for profiles that the GPU has not.
    """
    table = table_of(gpu)
    packed = table.pack({name: min(count, _MOST_ASKED) for name, count in wanted.items()})
    assert packed is not None, "few enough to be packed"
    return table.layouts[_search_of(table.states.family).nearest(packed)]


class _Search:
    """A family's layouts in the order of preference, prepared so that a question is a few
    additions.

    A lane is a byte of a long number; adding two such numbers adds all lanes at once. No lane
    passes 127, so its top bit is free to show a borrow.
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
        self._guards = sum((_MOST_ASKED + 1) << BITS * i for i in range(len(kinds)))

        order = [counts[layout] for *_, layout in self._ranks]
        self._first = [
            next(p for p, have in enumerate(order) if sum(have) <= asked)
            for asked in range(sum(order[0]) + 1)
        ]
        """By number of instances: the first layout that has no more."""
        self._kept = [
            [_lanes([min(asked, have[i]) for have in order]) for asked in range(_MOST_ASKED + 1)]
            for i in range(len(kinds))
        ]
        """By kind and count asked for: how many of these each layout keeps."""

        sources = [
            {j for j, large in enumerate(kinds) if j != i and shrinks(large, small)}
            for i, small in enumerate(kinds)
        ]
        groups: set[frozenset[int]] = {frozenset()}
        for some in sources:
            groups |= {group | some for group in groups}
        ordered = sorted(groups, key=sorted)
        self._full = _lanes([_TOP] * len(ordered))
        self._gives = [_lanes([i in group for group in ordered]) for i in range(len(kinds))]
        takes = [_lanes([some <= group for group in ordered]) for some in sources]
        # Hall: what is added can all come from shrinking if no group of sources is asked for more
        # instances than it has.
        self._supply = {layout: _sum(have, self._gives) for layout, have in counts.items()}
        self._demand = {layout: _sum(have, takes) for layout, have in counts.items()}

    def nearest(self, asked: int) -> int:
        """asked: a layout as a number, accepted or not, at most 7 of each kind."""
        counts = [asked >> BITS * i & MOST for i in range(len(self._kept))]
        kept = sum([self._kept[i][n] for i, n in enumerate(counts) if n]).to_bytes(
            len(self._ranks), "little"
        )
        have = self._full + _sum(counts, self._gives)
        most = min(sum(counts), len(self._first) - 1)
        first = self._first[most]
        while (position := kept.find(most, first)) < 0:
            most -= 1
        found: list[tuple[tuple[int, ...], int]] = []
        rank: tuple[int, ...] = ()
        while position >= 0 and (not found or self._ranks[position][:-1] == rank):
            *_, layout = self._ranks[position]
            # Three ones for each kind of which as many are asked for as the layout has, else three
            # zeros.
            enough = (asked | self._guards) - layout & self._guards
            mask = enough - (enough >> 3)
            keeping = layout & mask | asked & ~mask
            left = have - self._supply[keeping] - self._demand[layout - keeping]
            if left & self._full == self._full:
                rank = self._ranks[position][:-1]
                found.append((self._worth[keeping], layout))
            position = kept.find(most, position + 1)
        # The kept instances alone are accepted, so there is one.
        return min(found)[1]


@cache
def _search_of(family: Family) -> _Search:
    return _Search(states_of(family))


def _lanes(values: Sequence[int]) -> int:
    return int.from_bytes(bytes(values), "little")


def _sum(counts: Sequence[int], lanes: Sequence[int]) -> int:
    return sum([n * lane for n, lane in zip(counts, lanes, strict=True) if n])


def shrinks(large: Kind, small: Kind) -> bool:
    """Whether `small` has no more of anything than `large`."""
    return (
        small.size <= large.size
        and small.compute <= large.compute
        and small.graphics <= large.graphics
        and all(cost <= large.engines.get(engine, 0) for engine, cost in small.engines.items())
    )
