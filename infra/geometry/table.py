"""Every legal state of one GPU, worked out once: sets of places, and the layouts (multisets of profiles) that they realise.

A place is a profile at a start. A set of places is legal where no two overlap in memory slots, and compute slices, media engines
and the most of each profile are kept. What is legal stays legal when an instance goes, so growing one place at a time finds all:
2318 sets and 127 layouts on the largest seven-slice GPUs.

Sets are integers, one bit per place. Layouts are integers too, four bits per profile: adding one instance is one addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from infra.catalog import Gpu, Profile

Layout = Mapping[str, int]
"""Profile names of one GPU -> instances, such as `{"3g.40gb": 1, "1g.10gb": 4}`."""
_BITS = 4
_MOST = (1 << _BITS) - 1
"""No GPU holds more instances of a profile; the catalog's largest is 7."""


class LayoutError(Exception):
    """Instances that cannot be there together, or profiles the GPU has not. The message says which and why."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One instance on the GPU: `size` memory slots from `start`."""

    profile: str
    start: int
    size: int


def creation_rank(profile: Profile) -> tuple[int, int, int, str]:
    """Large before small: by memory, then compute, then media engines, falling.

    So created, every layout fits even where the driver picks the places. Measured for the seven-slice family (planning notes):
    only if it puts a 3g at 4 before 0 and a double-memory 1g at 6 first, as drivers do; 2g and 1g may go anywhere.
    """
    kind = profile.kind
    return -kind.size, -kind.compute, -sum(kind.engines.values()), profile.name


class Table:
    """All legal states of one GPU. Get it with `table_of`, which makes it once."""

    def __init__(self, gpu: Gpu) -> None:
        assert gpu.family is not None
        self.gpu = gpu
        self.family = gpu.family
        self.profiles = tuple(sorted(gpu.profiles.values(), key=creation_rank))
        self.index = {profile.name: i for i, profile in enumerate(self.profiles)}
        self.unit = {profile.name: 1 << _BITS * i for i, profile in enumerate(self.profiles)}
        self.places = tuple(
            Placement(profile=p.name, start=start, size=p.kind.size)
            for p in self.profiles
            for start in sorted(p.kind.starts, reverse=True)
        )
        self.place_index = {(place.profile, place.start): i for i, place in enumerate(self.places)}
        self._units = tuple(self.unit[place.profile] for place in self.places)
        self.sets = self._legal_sets()

    @cached_property
    def realisations(self) -> Mapping[int, tuple[int, ...]]:
        """Layout -> the sets of places that realise it."""
        found: dict[int, list[int]] = {}
        for places, layout in self.sets.items():
            found.setdefault(layout, []).append(places)
        return {layout: tuple(sets) for layout, sets in found.items()}

    @cached_property
    def witnesses(self) -> Mapping[int, tuple[Placement, ...]]:
        """Layout -> the realisation that takes the highest start for each instance, in the order of creation."""
        # A lower bit is an earlier profile of that order and a higher start of it.
        return {
            layout: max((self.placed(s) for s in sets), key=lambda placed: [p.start for p in placed])
            for layout, sets in self.realisations.items()
        }

    @cached_property
    def counts(self) -> Mapping[int, tuple[int, ...]]:
        """Layout -> instances per profile, in the order of `profiles`."""
        return {layout: tuple(layout >> _BITS * i & _MOST for i in range(len(self.profiles))) for layout in self.realisations}

    @cached_property
    def maximal(self) -> tuple[int, ...]:
        """Layouts that no other contains."""
        return tuple(
            layout for layout in self.realisations if all(layout + unit not in self.realisations for unit in self.unit.values())
        )

    def pack(self, layout: Layout) -> int | None:
        """The layout as a number; None where no GPU holds so many of a profile. Raises LayoutError for what it has not."""
        packed = 0
        for name, count in layout.items():
            unit = self.unit.get(name)
            if unit is None:
                raise LayoutError(f"{self.gpu.name} has no profile {name}")
            if not 0 <= count <= _MOST:
                if count < 0:
                    raise LayoutError(f"{name}: {count} instances")
                return None
            packed += unit * count
        return packed

    def pack_counts(self, counts: Iterable[int]) -> int:
        """As `pack`, from counts in the order of `profiles`."""
        return sum(count << _BITS * i for i, count in enumerate(counts))

    def unpack(self, layout: int) -> dict[str, int]:
        return {p.name: n for i, p in enumerate(self.profiles) if (n := layout >> _BITS * i & _MOST)}

    def placed(self, places: int) -> tuple[Placement, ...]:
        """The places of a set in the order of creation."""
        return tuple(self.places[i] for i in _bits(places))

    def set_of(self, placed: Iterable[Placement]) -> int:
        """Raises LayoutError where the instances cannot be on the GPU together as they are."""
        places = 0
        for instance in placed:
            i = self.place_index.get((instance.profile, instance.start))
            if i is None:
                raise LayoutError(self._why_no_place(instance))
            if places >> i & 1:
                raise LayoutError(f"two instances {instance.profile} at slot {instance.start}")
            places |= 1 << i
        if places not in self.sets:
            shown = ", ".join(f"{p.profile} at {p.start}" for p in self.placed(places))
            raise LayoutError(f"{self.gpu.name} cannot hold {shown} together: they overlap, or need more than it has")
        return places

    def addable(self, places: int) -> Iterator[int]:
        """Places that can be taken beside those of a legal set."""
        return (i for i in range(len(self.places)) if not places >> i & 1 and places | 1 << i in self.sets)

    def additions(self, places: int) -> frozenset[int]:
        """Every layout that fits beside a legal set, the empty one among them."""
        known = self._additions.get(places)
        if known is None:
            found = {0}
            for i in self.addable(places):
                unit = self._units[i]
                found.update(unit + more for more in self.additions(places | 1 << i))
            known = self._additions[places] = frozenset(found)
        return known

    @cached_property
    def _additions(self) -> dict[int, frozenset[int]]:
        return {}

    def _legal_sets(self) -> dict[int, int]:
        """Set of places -> its layout."""
        family, kinds = self.family, [self.gpu.profiles[place.profile].kind for place in self.places]
        slots = [(1 << place.size) - 1 << place.start for place in self.places]
        budgets = tuple(family.engines)
        costs = [tuple(kind.engines.get(engine, 0) for engine in budgets) for kind in kinds]
        found = {0: 0}

        def grow(first: int, places: int, layout: int, taken: int, compute: int, engines: tuple[int, ...]) -> None:
            for i in range(first, len(kinds)):
                kind, unit = kinds[i], self._units[i]
                left = tuple(have - cost for have, cost in zip(engines, costs[i], strict=True))
                legal = not taken & slots[i] and kind.compute <= compute and all(n >= 0 for n in left)
                if legal and (layout // unit & _MOST) < kind.most:
                    more = places | 1 << i
                    found[more] = layout + unit
                    grow(i + 1, more, layout + unit, taken | slots[i], compute - kind.compute, left)

        grow(0, 0, 0, 0, family.compute, tuple(family.engines.values()))
        return found

    def _why_no_place(self, instance: Placement) -> str:
        profile = self.gpu.profiles.get(instance.profile)
        if profile is None:
            return f"{self.gpu.name} has no profile {instance.profile}"
        starts = ", ".join(map(str, profile.kind.starts))
        return f"{instance.profile} cannot start at slot {instance.start} of {self.gpu.name}; it starts at {starts}"


@cache
def table_of(gpu: Gpu) -> Table:
    """Raises LayoutError for a GPU without MIG."""
    if gpu.family is None:
        raise LayoutError(f"{gpu.name} has no MIG")
    return Table(gpu)


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
