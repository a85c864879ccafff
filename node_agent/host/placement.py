"""Searches placements for instances among the driver's possible placements, without a GPU table.

Among all placements that fit, it chooses the placement that keeps most of the existing instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from slicewright.apis.layout import GpuLayout, Partition
from slicewright.node_agent.host.mig_state import (
    ComputeInstance,
    ComputeProfile,
    GpuInstance,
    Profile,
    same_compute_instances,
)
from slicewright.node_agent.nvml.observed import Engines


class LayoutImpossible(Exception):
    """The GPU cannot have this layout. The message has the cause and the alternatives."""


@dataclass(frozen=True, kw_only=True)
class _Request:
    """A GPU instance to place."""

    profile: Profile
    start: int | None
    compute_instances: tuple[int, ...]
    """Compute slices of each compute instance."""


def place(
    layout: GpuLayout, offered: Sequence[Profile], existing: Sequence[GpuInstance] = ()
) -> tuple[GpuInstance, ...]:
    """Every GPU instance of a layout with its placement, by start. Raises LayoutImpossible."""
    instances = list(_instances_for(layout.parts, offered))
    _check_budgets(instances, offered)
    # The most constrained first: given starts, then large sizes.
    instances.sort(
        key=lambda w: (
            w.start is None,
            -w.profile.size,
            w.profile.id,
            w.compute_instances,
            w.start or 0,
        )
    )
    placed = _Search(instances, {i.position: i for i in existing}).best()
    if placed is None:
        raise LayoutImpossible(
            f"{_describe(instances)} do not fit together: {_why(instances, offered)}"
        )
    return tuple(sorted(placed, key=lambda i: i.start))


def place_compute_instances(
    requested: Sequence[ComputeInstance],
    offered: Sequence[ComputeProfile],
    existing: Sequence[ComputeInstance] = (),
) -> tuple[ComputeInstance, ...] | None:
    """Placements of compute instances in a GPU instance. Existing instances are kept if possible.

    None: they do not fit. If the driver reports no placements, the starts stay open, largest
    first: with the driver's first-fit placement, this order fits whenever any order does.
    """
    starts = {profile.slices: profile.starts for profile in offered}
    if any(c.slices not in starts for c in requested):
        return None
    order = sorted(requested, key=lambda c: (c.start is None, -c.slices))
    if any(starts[c.slices] is None and c.start is None for c in requested):
        return tuple(order)
    reusable = Counter((c.slices, c.start) for c in existing)
    best: tuple[int, tuple[ComputeInstance, ...]] | None = None

    def walk(at: int, used: int, chosen: tuple[ComputeInstance, ...], score: int) -> None:
        nonlocal best
        if best is not None and score + len(order) - at <= best[0]:
            return
        if at == len(order):
            best = (score, chosen)
            return
        instance = order[at]
        for start in (
            (starts[instance.slices] or ()) if instance.start is None else (instance.start,)
        ):
            bits = ((1 << instance.slices) - 1) << start
            if not used & bits:
                match = int(reusable[instance.slices, start] > 0)
                walk(
                    at + 1,
                    used | bits,
                    (*chosen, ComputeInstance(slices=instance.slices, start=start)),
                    score + match,
                )

    walk(0, 0, (), 0)
    return None if best is None else best[1]


def _instances_for(parts: Sequence[Partition], offered: Sequence[Profile]) -> Iterator[_Request]:
    small: dict[tuple[int, int | None], list[int]] = {}
    profiles: dict[int, Profile] = {}
    for part in parts:
        profile = _profile(part, offered)
        profiles[profile.id] = profile
        if part.start is not None and part.start not in profile.starts:
            legal = ", ".join(map(str, profile.starts))
            raise LayoutImpossible(
                f"{profile.name} cannot start at memory slice {part.start}; it can start at {legal}"
            )
        if part.compute_slices is None or part.compute_slices == profile.slices:
            for _ in range(part.count):
                yield _Request(
                    profile=profile, start=part.start, compute_instances=(profile.slices,)
                )
        elif part.compute_slices > profile.slices:
            raise LayoutImpossible(
                f"{part}: {profile.name} has {profile.slices} compute slices, not "
                f"{part.compute_slices}"
            )
        else:
            small.setdefault((profile.id, part.start), []).extend(
                [part.compute_slices] * part.count
            )
    for (profile_id, start), sizes in small.items():
        yield from _pack(profiles[profile_id], start, sorted(sizes, reverse=True))


def _pack(profile: Profile, start: int | None, sizes: Sequence[int]) -> Iterator[_Request]:
    """Packs compute instances into GPU instances: largest first, each into the first with room."""
    bins: list[list[int]] = []
    for size in sizes:
        room = next((b for b in bins if sum(b) + size <= profile.slices), None)
        if room is None:
            bins.append([size])
        else:
            room.append(size)
    if start is not None and len(bins) > 1:
        listed = ", ".join(f"{size}c" for size in sizes)
        raise LayoutImpossible(
            f"{listed} do not fit into one {profile.name} with {profile.slices} compute slices"
        )
    for contents in bins:
        yield _Request(profile=profile, start=start, compute_instances=tuple(contents))


def _profile(part: Partition, offered: Sequence[Profile]) -> Profile:
    for profile in offered:
        if part.profile in (profile.name, str(profile.id)):
            return profile
    names = ", ".join(f"{p.name} ({p.id})" for p in offered) or "no profile"
    raise LayoutImpossible(f"this GPU does not offer {part.profile}; it offers {names}")


def _check_budgets(instances: Sequence[_Request], offered: Sequence[Profile]) -> None:
    """Refuses instances that no placement can satisfy. Raises LayoutImpossible."""
    for profile_id, count in Counter(w.profile.id for w in instances).items():
        profile = next(p for p in offered if p.id == profile_id)
        if count > profile.most:
            raise LayoutImpossible(
                f"{profile.name} x{count}: the driver allows {profile.most} on this GPU"
            )
    compute = max((p.slices for p in offered), default=0)
    if (used := sum(w.profile.slices for w in instances)) > compute:
        raise LayoutImpossible(
            f"{_describe(instances)} need {used} compute slices, the GPU has {compute}"
        )
    for engine, budget in _engines(offered).items():
        used = sum(getattr(w.profile.engines, engine) for w in instances)
        if used > budget:
            raise LayoutImpossible(
                f"{_describe(instances)} need {used} {engine} engines, the GPU has {budget}"
            )


def _engines(offered: Sequence[Profile]) -> Mapping[str, int]:
    """The GPU's media engines, for the kinds whose counts per profile add up.

    NVIDIA's MIG User Guide gives one engine for every B200 profile. A rule from such numbers would
    refuse layouts that the driver creates.
    """
    whole = max(offered, key=lambda p: (p.slices, p.size), default=None)
    if whole is None:
        return {}
    kinds = [f.name for f in fields(Engines)]
    return {
        kind: getattr(whole.engines, kind)
        for kind in kinds
        if all(
            getattr(p.engines, kind) * p.most <= getattr(whole.engines, kind)
            for p in offered
            if p.slices < whole.slices
        )
    }


class _Search:
    """Backtracking over placements with a bound on the score."""

    def __init__(
        self, instances: Sequence[_Request], existing: Mapping[tuple[int, int], GpuInstance]
    ) -> None:
        self._instances = instances
        self._existing = existing
        self._best: tuple[int, tuple[GpuInstance, ...]] | None = None

    def best(self) -> tuple[GpuInstance, ...] | None:
        self._walk(0, 0, (), 0)
        return None if self._best is None else self._best[1]

    def _walk(self, at: int, used: int, chosen: tuple[GpuInstance, ...], score: int) -> None:
        if self._best is not None and score + 2 * (len(self._instances) - at) <= self._best[0]:
            return
        if at == len(self._instances):
            self._best = (score, chosen)
            return
        request = self._instances[at]
        for start in self._starts(request, at, chosen):
            bits = ((1 << request.profile.size) - 1) << start
            if not used & bits:
                instance = GpuInstance(
                    profile=request.profile.id,
                    start=start,
                    size=request.profile.size,
                    compute_instances=tuple(
                        ComputeInstance(slices=size) for size in request.compute_instances
                    ),
                )
                self._walk(at + 1, used | bits, (*chosen, instance), score + self._worth(instance))

    def _starts(self, request: _Request, at: int, chosen: tuple[GpuInstance, ...]) -> Sequence[int]:
        if request.start is not None:
            return (request.start,)
        starts = request.profile.starts
        if at and self._instances[at - 1] == request:
            # Equal instances ascend, because all permutations of seven would take too long.
            starts = tuple(start for start in starts if start > chosen[-1].start)
        return starts

    def _worth(self, instance: GpuInstance) -> int:
        """2 if the instance exists already, 1 if only its compute instances must change, else 0."""
        present = self._existing.get(instance.position)
        return (
            0
            if present is None
            else 2
            if same_compute_instances(present.compute_instances, instance.compute_instances)
            else 1
        )


def _why(instances: Sequence[_Request], offered: Sequence[Profile]) -> str:
    slots = max(start + p.size for p in offered for start in p.starts)
    needed = sum(w.profile.size for w in instances)
    if needed > slots:
        return f"they need {needed} memory slices, the GPU has {slots}"
    places = "; ".join(
        f"{p.name} at {', '.join(map(str, p.starts))}"
        for p in {w.profile.id: w.profile for w in instances}.values()
    )
    return f"their placements overlap ({places})"


def _describe(instances: Sequence[_Request]) -> str:
    counts = Counter(w.profile.name for w in instances)
    return ", ".join(f"{name} x{count}" for name, count in sorted(counts.items()))
