"""Whether a layout fits on a GPU: exact, from placements. If not: why, and the nearest that fits.

Sums of slices mislead. On an A100 40GB, with 7 compute slices, 8 memory slots and one OFA engine:

- 3g.20gb x2 + 1g.5gb: 7 compute slices, so it seems to fit; it needs 9 memory slots.
- 4g.20gb x2: 8 memory slots, so it seems to fit; it needs 8 compute slices.
- 4g.20gb + 3g.20gb: 7 compute slices and 8 memory slots, and it fits, but only from driver
  510.39.01 on, and with the 4g at slot 0: if a 3g is at slot 0, the 4g has no placement.
- 1g.10gb x4 + 1g.5gb: 5 compute slices, so it seems to fit; it needs 9 memory slots, because a
  1g.10gb takes two. It starts at even slots: with 1g.5gb at 1, 3, 5 and 6, four slots are free,
  but it has no placement.
- 1g.5gb+me x2: 2 compute slices and 2 memory slots, so it seems to fit; each needs the one OFA.
- 3g.20gb with 1g.5gb at slots 1 and 5: both sums allow it, but a 3g starts at 0 or 4.

Source: NVIDIA MIG user guide; `nvidia-smi mig -lgipp` lists the placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from slicewright.infra.catalog import Gpu, Profile, driver_order
from slicewright.infra.geometry import naming, reasons
from slicewright.infra.geometry.compute_instances import gpu_instances
from slicewright.infra.geometry.headroom import max_added
from slicewright.infra.geometry.nearest import nearest
from slicewright.infra.geometry.states import creation_rank
from slicewright.infra.geometry.table import Layout, LayoutError, Placement, table_of

Cause = Literal["no MIG", "profile", "count", "memory", "compute", "media", "placement"]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The layout fits, for example at `placements`, which are in order of creation."""

    placements: tuple[Placement, ...]


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """The layout does not fit. `nearest` fits with the fewest changes, or is empty."""

    reason: str
    """A sentence. Shortages do not repeat the GPU's name."""
    nearest: Layout
    causes: tuple[Cause, ...]
    """All causes that apply, the most important first."""


def check(gpu: Gpu, layout: Layout) -> Fit | Misfit:
    """Whether `layout` fits on an empty `gpu`. Counts of 0 are ignored.

    layout: keys are names of `gpu.profiles`. Raises LayoutError for a negative count.
    """
    if gpu.family is None:
        return Misfit(reason=f"{gpu.name} has no MIG", nearest={}, causes=("no MIG",))
    try:
        packed = table_of(gpu).pack(layout)
    except LayoutError:
        if min(layout.values()) < 0:
            raise
        nonzero = {name: count for name, count in layout.items() if count}
        return (
            _unknown_profiles(gpu, nonzero)
            if nonzero.keys() - gpu.profiles
            else check(gpu, nonzero)
        )
    fit = _fits(gpu).get(packed)
    if fit is not None:
        return fit
    causes, reason = reasons.shortages(gpu, layout)
    return Misfit(reason=reason, nearest=nearest(gpu, layout), causes=causes)


def check_beside(gpu: Gpu, in_use: Iterable[Placement], layout: Layout) -> Fit | Misfit:
    """Whether `layout` fits in addition to the instances in use. A Fit has only the new placements.

    A Misfit's `nearest` is empty: see `change` to move instances. Raises LayoutError if `in_use`
    is impossible, or for a profile that the GPU does not have.
    """
    table = table_of(gpu)
    existing = table.set_of(in_use)
    used, new = table.states.sets[existing], table.pack(layout)
    for placements in table.states.realizations.get(used + new, ()):
        if placements & existing == existing:
            return Fit(placements=table.placed(placements & ~existing))
    total = dict(table.layouts[used])
    for name, count in layout.items():
        total[name] = total.get(name, 0) + count
    causes, reason = reasons.shortages(gpu, total)
    if causes:
        return Misfit(
            reason=f"together with the instances in use, {reason}", nearest={}, causes=causes
        )
    reason = reasons.no_placement(
        gpu, table.placed(existing), [n for n, count in layout.items() if count]
    )
    return Misfit(reason=reason, nearest={}, causes=("placement",))


def max_instances(gpu: Gpu, profile: str) -> int:
    """How many instances of `profile` fit on an empty `gpu`. 0 if it does not have the profile."""
    if profile not in gpu.profiles:
        return 0
    table = table_of(gpu)
    return max_added(table.states.realizations, 0, table.units[profile])


def layouts(gpu: Gpu) -> tuple[Layout, ...]:
    """Every layout that fits on `gpu`, except the empty one."""
    table = table_of(gpu)
    return tuple(layout for number, layout in table.layouts.items() if number)


def maximal(gpu: Gpu) -> tuple[Layout, ...]:
    """The layouts that have no room for another instance."""
    table = table_of(gpu)
    return tuple(table.layouts[layout] for layout in table.states.maximal)


def creation_order(gpu: Gpu, layout: Layout) -> tuple[Profile, ...]:
    """The instances in an order of creation that works in any case, see `creation_rank`."""
    profiles = [gpu.profiles[name] for name, count in layout.items() for _ in range(count)]
    return tuple(sorted(profiles, key=lambda profile: creation_rank(profile.kind)))


def minimum_driver(gpu: Gpu, profiles: Iterable[str]) -> str:
    """The oldest driver with all these profiles on `gpu`. Raises KeyError for an unknown name."""
    return _minimum_driver(gpu, frozenset(profiles))


@lru_cache(maxsize=4096)
def _minimum_driver(gpu: Gpu, profiles: frozenset[str]) -> str:
    rows = [gpu.profiles[name] for name in profiles]
    kinds = {profile.kind.kind for profile in rows}
    stated = [gpu.minimum_driver, *(row.minimum_driver for row in rows)]
    drivers = [driver for driver in stated if driver is not None]
    drivers += [rule.minimum_driver for rule in gpu.together if rule.kinds <= kinds]
    return max(drivers, key=driver_order)


@cache
def _fits(gpu: Gpu) -> Mapping[int, Fit]:
    table = table_of(gpu)
    return {
        layout: Fit(placements=table.placed(sets[0]))
        for layout, sets in table.states.realizations.items()
    }


def _unknown_profiles(gpu: Gpu, layout: Layout) -> Misfit:
    unknown = [name for name in layout if name not in gpu.profiles]
    reason = "; ".join(naming.why_unknown(gpu, name) for name in unknown)
    causes: tuple[Cause, ...] = ("profile",)
    # The profiles that the GPU has may not fit either.
    rest = check(gpu, {name: count for name, count in layout.items() if name in gpu.profiles})
    if isinstance(rest, Misfit):
        reason, causes = (
            f"{reason}; the other profiles do not fit either: {rest.reason}",
            (*causes, *rest.causes),
        )
    parts = {name: count for name, count in layout.items() if naming.is_compute_instance(gpu, name)}
    renamed = gpu_instances(gpu, parts)
    for name, count in layout.items():
        if name in parts:
            continue
        profile = name if name in gpu.profiles else naming.own_name(gpu, name)
        if profile is None:
            return Misfit(reason=reason, nearest={}, causes=causes)
        renamed[profile] = renamed.get(profile, 0) + count
    return Misfit(reason=reason, nearest=nearest(gpu, renamed), causes=causes)
