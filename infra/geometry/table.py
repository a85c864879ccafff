"""The states of one GPU model, by its profile names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType

from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry.states import bits, states_of

Layout = Mapping[str, int]
"""Profile name -> number of instances: `{"3g.40gb": 1, "1g.10gb": 4}`."""
_TOO_MANY = 8
"""The packed form of any larger count: no GPU has as many instances, and four bits also hold the
sum with the instances in use, 7 at most."""


class LayoutError(Exception):
    """The instances are impossible, or the GPU lacks a profile. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One instance on the GPU: `size` memory slots from `start`."""

    profile: str
    start: int
    size: int


class Table:
    """Converts between profile names and the states of the family. `table_of` caches it."""

    def __init__(self, gpu: Gpu) -> None:
        assert gpu.family is not None
        self.gpu = gpu
        self.states = states_of(gpu.family)
        name_of = {profile.kind.kind: profile.name for profile in gpu.profiles.values()}
        self.names = tuple(name_of[kind.kind] for kind in self.states.kinds)
        self.units = dict(zip(self.names, self.states.units, strict=True))
        self.placements = tuple(
            Placement(profile=self.names[i], start=start, size=self.states.kinds[i].size)
            for i, start in self.states.placements
        )
        self._bit_of = {
            (placement.profile, placement.start): i for i, placement in enumerate(self.placements)
        }

    @cached_property
    def layouts(self) -> Mapping[int, Layout]:
        """Packed layout -> layout by profile name."""
        return {
            layout: MappingProxyType(
                {name: n for name, n in zip(self.names, counts, strict=True) if n}
            )
            for layout, counts in self.states.counts.items()
        }

    def pack(self, layout: Layout) -> int:
        """The packed layout, with 8 for every count that is too large for any GPU.

        Raises LayoutError for a negative count or a profile that the GPU does not have.
        """
        packed = 0
        for name, count in layout.items():
            unit = self.units.get(name)
            if unit is None:
                raise LayoutError(f"{self.gpu.name} has no profile {name}")
            if count < 0:
                raise LayoutError(f"{name}: the count must not be negative, but is {count}")
            packed += unit * min(count, _TOO_MANY)
        return packed

    def placed(self, placements: int) -> tuple[Placement, ...]:
        """The placements of a set, in order of creation."""
        return tuple([self.placements[i] for i in bits(placements)])

    def set_of(self, placed: Iterable[Placement]) -> int:
        """The set of these placements. Raises LayoutError if it is not valid."""
        placements = 0
        for instance in placed:
            i = self._bit_of.get((instance.profile, instance.start))
            if i is None:
                raise LayoutError(self._invalid_placement(instance))
            if placements >> i & 1:
                raise LayoutError(f"two instances of {instance.profile} at slot {instance.start}")
            placements |= 1 << i
        if placements not in self.states.sets:
            listed = ", ".join(f"{p.profile} at {p.start}" for p in self.placed(placements))
            raise LayoutError(
                f"{self.gpu.name} cannot have {listed} together: they overlap or need more "
                "slices or media engines than it has"
            )
        return placements

    def _invalid_placement(self, instance: Placement) -> str:
        profile = self.gpu.profiles.get(instance.profile)
        if profile is None:
            return f"{self.gpu.name} has no profile {instance.profile}"
        starts = ", ".join(map(str, profile.kind.starts))
        return (
            f"{instance.profile} cannot start at slot {instance.start} of {self.gpu.name}; it can "
            f"start at {starts}"
        )


@cache
def table_of(gpu: Gpu) -> Table:
    """The table of a GPU model. Raises LayoutError for a GPU without MIG."""
    if gpu.family is None:
        raise LayoutError(f"{gpu.name} has no MIG")
    return Table(gpu)
