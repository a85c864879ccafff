"""Does a layout fit on one GPU, and where; if not, why, and what does. Exact, from the placement tables, not from sums of slices.

Sums mislead: 3g.20gb twice and 1g.5gb need 7 of 7 compute slices but 9 of 8 memory slots; two 4g.20gb fill the memory exactly
and need 8 compute slices; beside an instance at slot 1, a 3g that both sums allow has no legal start.
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
    """The layout fits. `placements` is a witness, in an order of creation that also works where the driver picks the places."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """The layout does not fit. `nearest` changes the fewest instances (shrunk or left out); empty where nothing is near."""

    reason: str
    """One sentence, without the GPU's name where it is about room."""
    nearest: Layout
    causes: tuple[Cause, ...]
    """All that are true of it, the most telling first."""


def check(gpu: Gpu, layout: Layout) -> Fit | Misfit:
    """Whether `layout` fits on an empty `gpu`. Names are of GPU instances, as in `gpu.profiles`; counts of 0 are as if not there.

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
    """Whether `layout` fits on `gpu` with the instances of `in_use` left where they are; the placements are those of `layout`.

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
    reason = reasons.why_no_place(gpu, table.placed(there), [n for n, count in layout.items() if count])
    return Misfit(reason=reason, nearest={}, causes=("placement",))


def most(gpu: Gpu, profile: str) -> int:
    """How many instances of `profile` fit on an empty `gpu`; 0 where the GPU has no such profile."""
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
    """The instances in an order of creation that works also where the driver picks the places; see `creation_rank`."""
    profiles = [gpu.profiles[name] for name, count in layout.items() for _ in range(count)]
    return tuple(sorted(profiles, key=lambda profile: creation_rank(profile.kind)))


def minimum_driver(gpu: Gpu, profiles: Iterable[str]) -> str:
    """The oldest driver that can cut `gpu` into these profiles. Raises KeyError for a profile that it has not."""
    cut = [gpu.profiles[name] for name in profiles]
    kinds = {profile.kind.kind for profile in cut}
    drivers = [gpu.minimum_driver, *(p.minimum_driver for p in cut if p.minimum_driver)]
    drivers += [rule.minimum_driver for rule in gpu.together if rule.kinds <= kinds]
    return max(drivers, key=driver_order)


@cache
def _fits(gpu: Gpu) -> Mapping[int, Fit]:
    table = table_of(gpu)
    return {layout: Fit(placements=table.placed(sets[0])) for layout, sets in table.states.realisations.items()}


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
