"""Does a layout fit on one GPU, and where; if not, why, and what does. Exact, from the placement
tables, not from sums of slices.

Where sums mislead, on an A100 with 40 GB, of 7 compute slices, 8 memory slots and one OFA:

- 3g.20gb x2 + 1g.5gb: 7 compute slices, so it seems to fit; it needs 9 memory slots.
- 4g.20gb x2: 8 memory slots, so it seems to fit; it needs 8 compute slices.
- 4g.20gb + 3g.20gb: 7 compute slices and 8 memory slots, and it fits; but only with driver
510.39.01 or newer, and only with the
  4g at slot 0: beside a 3g at slot 0 there is no place for it.
- 1g.10gb x4 + 1g.5gb: 5 compute slices, so it seems to fit; a 1g.10gb takes two memory slots, which
makes 9. And it starts at
  even slots: beside 1g.5gb at 1, 3, 5 and 6 four slots are free and none of them is a place for it.
- 1g.5gb+me x2: 2 compute slices and 2 memory slots, so it seems to fit; each takes the one OFA.
- 3g.20gb beside 1g.5gb at slots 1 and 5: both sums allow it; a 3g starts at 0 or 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from infra.catalog import Gpu, Profile, driver_order
from infra.geometry import naming, reasons
from infra.geometry.nearby import nearest
from infra.geometry.parts import gpu_instances
from infra.geometry.states import creation_rank
from infra.geometry.table import Layout, LayoutError, Placement, table_of

Cause = Literal["no MIG", "profile", "count", "memory", "compute", "media", "placement"]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The layout fits. `placements` is a witness, in an order of creation that also works where the
    driver picks the places.
    """

    placements: tuple[Placement, ...]


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """The layout does not fit. `nearest` changes the fewest instances (shrunk or left out); empty
    where nothing is near.
    """

    reason: str
    """One sentence, without the GPU's name where it is about room."""
    nearest: Layout
    causes: tuple[Cause, ...]
    """All that are true of it, the most telling first."""


def check(gpu: Gpu, layout: Layout) -> Fit | Misfit:
    """Whether `layout` fits on an empty `gpu`. Names are of GPU instances, as in `gpu.profiles`;
    counts of 0 are as if not there.

    Raises LayoutError for a negative count.
    """
    if gpu.family is None:
        return Misfit(reason=f"{gpu.name} has no MIG", nearest={}, causes=("no MIG",))
    fits = _fits(gpu)
    try:
        packed = table_of(gpu).pack(layout)
    except LayoutError:
        if min(layout.values()) < 0:
            raise
        return _unknown(gpu, {name: count for name, count in layout.items() if count})
    fit = None if packed is None else fits.get(packed)
    if fit is not None:
        return fit
    wanted = {name: count for name, count in layout.items() if count}
    causes, reason = reasons.shortages(gpu, wanted)
    return Misfit(reason=reason, nearest=nearest(gpu, wanted), causes=causes)


def beside(gpu: Gpu, in_use: Iterable[Placement], layout: Layout) -> Fit | Misfit:
    """Whether `layout` fits on `gpu` with the instances of `in_use` left where they are; the
    placements are those of `layout`.

    `nearest` of a Misfit is empty: moving what is in use may be the better answer, see `change`.
    Raises LayoutError where `in_use` cannot be, or for profiles that the GPU has not.
    """
    table = table_of(gpu)
    there = table.set_of(in_use)
    used, wanted = table.states.sets[there], table.pack(layout)
    if wanted is not None:
        for places in table.states.realisations.get(used + wanted, ()):
            if places & there == there:
                return Fit(placements=table.placed(places & ~there))
    both = dict(table.layouts[used])
    for name, count in layout.items():
        both[name] = both.get(name, 0) + count
    causes, reason = reasons.shortages(gpu, both)
    if causes:
        return Misfit(reason=f"with what is in use, {reason}", nearest={}, causes=causes)
    reason = reasons.why_no_place(
        gpu, table.placed(there), [n for n, count in layout.items() if count]
    )
    return Misfit(reason=reason, nearest={}, causes=("placement",))


def most(gpu: Gpu, profile: str) -> int:
    """How many instances of `profile` fit on an empty `gpu`; 0 where the GPU has no such
    profile.
    """
    if profile not in gpu.profiles:
        return 0
    table = table_of(gpu)
    unit, n = table.units[profile], 0
    while (n + 1) * unit in table.states.realisations:
        n += 1
    return n


def layouts(gpu: Gpu) -> tuple[Layout, ...]:
    """Every layout of at least one instance that fits on `gpu`."""
    table = table_of(gpu)
    return tuple(layout for number, layout in table.layouts.items() if number)


def maximal(gpu: Gpu) -> tuple[Layout, ...]:
    """The layouts that no other layout contains."""
    table = table_of(gpu)
    return tuple(table.layouts[layout] for layout in table.states.maximal)


def creation_order(gpu: Gpu, layout: Layout) -> tuple[Profile, ...]:
    """The instances in an order of creation that works also where the driver picks the places; see
    `creation_rank`.
    """
    profiles = [gpu.profiles[name] for name, count in layout.items() for _ in range(count)]
    return tuple(sorted(profiles, key=lambda profile: creation_rank(profile.kind)))


def minimum_driver(gpu: Gpu, profiles: Iterable[str]) -> str:
    """The oldest driver that can cut `gpu` into these profiles. Raises KeyError for a profile that
    it has not.
    """
    cut = [gpu.profiles[name] for name in profiles]
    kinds = {profile.kind.kind for profile in cut}
    drivers = [gpu.minimum_driver, *(p.minimum_driver for p in cut if p.minimum_driver)]
    drivers += [rule.minimum_driver for rule in gpu.together if rule.kinds <= kinds]
    return max(drivers, key=driver_order)


@cache
def _fits(gpu: Gpu) -> Mapping[int, Fit]:
    table = table_of(gpu)
    return {
        layout: Fit(placements=table.placed(sets[0]))
        for layout, sets in table.states.realisations.items()
    }


def _unknown(gpu: Gpu, wanted: Layout) -> Misfit:
    unknown = [name for name in wanted if name not in gpu.profiles]
    reason = "; ".join(naming.why_unknown(gpu, name) for name in unknown)
    causes: tuple[Cause, ...] = ("profile",)
    # What the GPU has of it may not fit either.
    others = check(gpu, {name: count for name, count in wanted.items() if name in gpu.profiles})
    if isinstance(others, Misfit):
        reason, causes = f"{reason}; and of the others, {others.reason}", (*causes, *others.causes)
    parts = {name: count for name, count in wanted.items() if naming.is_part(gpu, name)}
    renamed = gpu_instances(gpu, parts)
    for name, count in wanted.items():
        if name in parts:
            continue
        own = name if name in gpu.profiles else naming.own_name(gpu, name)
        if own is None:
            return Misfit(reason=reason, nearest={}, causes=causes)
        renamed[own] = renamed.get(own, 0) + count
    return Misfit(reason=reason, nearest=nearest(gpu, renamed), causes=causes)
