"""What comes nearest to a layout that does not fit: the fewest instances changed, of those the fewest left out."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from infra.catalog import Gpu, Kind
from infra.geometry.table import Layout, table_of

_Counts = tuple[int, ...]
_Rank = tuple[int, ...]
"""Best first."""


def nearest(gpu: Gpu, wanted: Layout) -> dict[str, int]:
    """The accepted layout that keeps the most instances of `wanted`; of the others the most are shrunk instead of left out,
    then the most compute, memory and media
    engines stay, and of equals the larger instances untouched. Raises LayoutError for profiles that the GPU has not."""
    table = table_of(gpu)
    table.pack(dict.fromkeys(wanted, 1))
    # More than 7 of anything never fits, nor can more than 7 be shrunk: the answer is the same.
    return table.unpack(_nearest(gpu, tuple(min(7, wanted.get(p.name, 0)) for p in table.profiles)))


@lru_cache(maxsize=4096)
def _nearest(gpu: Gpu, wanted: _Counts) -> int:
    asked = sum(wanted)
    best: tuple[_Rank, int] | None = None
    for keeping in sorted(_most_kept(gpu, wanted)):
        rest = tuple(w - k for w, k in zip(wanted, keeping, strict=True))
        for rank, layout, added in _containing(gpu, keeping):
            if best is not None and rank >= best[0]:
                break
            if -rank[0] <= asked and _can_shrink(gpu, rest, added):
                best = rank, layout
                break
    assert best is not None, "the kept instances alone are accepted"
    return best[1]


def _most_kept(gpu: Gpu, wanted: _Counts) -> set[_Counts]:
    """The largest parts of `wanted` that are accepted. Each is what it has in common with some maximal layout."""
    table = table_of(gpu)
    kept = sum(lanes[count] for lanes, count in zip(_kept_of(gpu), wanted, strict=True)).to_bytes(len(table.maximal), "little")
    most = max(kept)
    return {tuple(map(min, wanted, table.counts[layout])) for layout, n in zip(table.maximal, kept, strict=True) if n == most}


@cache
def _kept_of(gpu: Gpu) -> tuple[tuple[int, ...], ...]:
    """By profile and count wanted: the instances kept on every maximal layout at once, a byte for each. So one addition per
    profile counts them all; they stay far below 256."""
    table = table_of(gpu)
    maximal = [table.counts[layout] for layout in table.maximal]
    return tuple(
        tuple(int.from_bytes(bytes(min(wanted, counts[i]) for counts in maximal), "little") for wanted in range(8))
        for i in range(len(table.profiles))
    )


@cache
def _containing(gpu: Gpu, keeping: _Counts) -> tuple[tuple[_Rank, int, _Counts], ...]:
    """Accepted layouts that contain `keeping`: rank, layout, what they have beyond it."""
    table, worth = table_of(gpu), _worths(gpu)
    kept = worth[table.pack_counts(keeping)]
    found = []
    for layout, counts in table.counts.items():
        if all(map(operator.ge, counts, keeping)):
            added = tuple(map(operator.sub, counts, keeping))
            found.append(((-sum(counts), *worth[layout], *kept, layout), layout, added))
    return tuple(sorted(found))


@cache
def _worths(gpu: Gpu) -> Mapping[int, _Rank]:
    """Layout -> compute, then memory, then media engines, negative."""
    table = table_of(gpu)
    each = [(k.compute, k.size, sum(k.engines.values())) for k in (p.kind for p in table.profiles)]
    return {
        layout: tuple(-sum(n * worth[i] for n, worth in zip(counts, each, strict=True)) for i in range(3))
        for layout, counts in table.counts.items()
    }


def _can_shrink(gpu: Gpu, larger: _Counts, smaller: _Counts) -> bool:
    """Whether each of `smaller` can come from shrinking another one of `larger`."""
    left = list(larger)
    needs = [i for i, count in enumerate(smaller) for _ in range(count)]

    def place(position: int) -> bool:
        if position == len(needs):
            return True
        for source in _shrinks_from(gpu)[needs[position]]:
            if left[source]:
                left[source] -= 1
                if place(position + 1):
                    return True
                left[source] += 1
        return False

    return len(needs) <= sum(larger) and place(0)


@cache
def _shrinks_from(gpu: Gpu) -> Sequence[tuple[int, ...]]:
    """By profile: the profiles that it is a shrunk form of."""
    profiles = table_of(gpu).profiles
    return tuple(
        tuple(j for j, large in enumerate(profiles) if i != j and shrinks(large.kind, small.kind))
        for i, small in enumerate(profiles)
    )


def shrinks(large: Kind, small: Kind) -> bool:
    """Whether `small` has no more of anything than `large`."""
    return (
        small.size <= large.size
        and small.compute <= large.compute
        and small.graphics <= large.graphics
        and all(cost <= large.engines.get(engine, 0) for engine, cost in small.engines.items())
    )
