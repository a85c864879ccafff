"""The states of one GPU under the names that its driver gives the instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType

from infra.catalog import Gpu
from infra.geometry.states import MOST, bits, states_of

Layout = Mapping[str, int]
"""Profile names of one GPU -> instances, such as `{"3g.40gb": 1, "1g.10gb": 4}`."""


class LayoutError(Exception):
    """Instances that cannot be there together, or profiles the GPU has not. The message says which
    and why.
    """


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One instance on the GPU: `size` memory slots from `start`."""

    profile: str
    start: int
    size: int


class Table:
    """One GPU's names for the states of its family. Get it with `table_of`, which makes it once."""

    def __init__(self, gpu: Gpu) -> None:
        assert gpu.family is not None
        self.gpu = gpu
        self.states = states_of(gpu.family)
        name_of = {profile.kind.kind: profile.name for profile in gpu.profiles.values()}
        self.names = tuple(name_of[kind.kind] for kind in self.states.kinds)
        self.units = dict(zip(self.names, self.states.units, strict=True))
        self.places = tuple(
            Placement(profile=self.names[i], start=start, size=self.states.kinds[i].size)
            for i, start in self.states.places
        )
        self._place_index = {(place.profile, place.start): i for i, place in enumerate(self.places)}

    @cached_property
    def layouts(self) -> Mapping[int, Layout]:
        """Every layout as a number -> by names."""
        return {
            layout: MappingProxyType(
                {name: n for name, n in zip(self.names, counts, strict=True) if n}
            )
            for layout, counts in self.states.counts.items()
        }

    def pack(self, layout: Layout) -> int | None:
        """The layout as a number; None where no GPU holds so many of a profile. Raises LayoutError
        for what it has not.
        """
        packed = 0
        for name, count in layout.items():
            unit = self.units.get(name)
            if unit is None:
                raise LayoutError(f"{self.gpu.name} has no profile {name}")
            if not 0 <= count <= MOST:
                if count < 0:
                    raise LayoutError(f"{name}: {count} instances")
                return None
            packed += unit * count
        return packed

    def placed(self, places: int) -> tuple[Placement, ...]:
        """The places of a set in the order of creation."""
        return tuple([self.places[i] for i in bits(places)])

    def set_of(self, placed: Iterable[Placement]) -> int:
        """Raises LayoutError where the instances cannot be on the GPU together as they are."""
        places = 0
        for instance in placed:
            i = self._place_index.get((instance.profile, instance.start))
            if i is None:
                raise LayoutError(self._why_no_place(instance))
            if places >> i & 1:
                raise LayoutError(f"two instances {instance.profile} at slot {instance.start}")
            places |= 1 << i
        if places not in self.states.sets:
            shown = ", ".join(f"{p.profile} at {p.start}" for p in self.placed(places))
            raise LayoutError(
                f"{self.gpu.name} cannot hold {shown} together: they overlap, or need more "
                "than it has"
            )
        return places

    def _why_no_place(self, instance: Placement) -> str:
        profile = self.gpu.profiles.get(instance.profile)
        if profile is None:
            return f"{self.gpu.name} has no profile {instance.profile}"
        starts = ", ".join(map(str, profile.kind.starts))
        return (
            f"{instance.profile} cannot start at slot {instance.start} of {self.gpu.name}; it "
            f"starts at {starts}"
        )


@cache
def table_of(gpu: Gpu) -> Table:
    """Raises LayoutError for a GPU without MIG."""
    if gpu.family is None:
        raise LayoutError(f"{gpu.name} has no MIG")
    return Table(gpu)
