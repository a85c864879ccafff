"""Why a layout does not fit, in words that a person can act on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from infra.catalog import Gpu
from infra.geometry.table import Layout, Placement, table_of

_ENGINES: Mapping[str, str] = {"ofa": "OFA", "nvdec": "video decoders"}
_Shortage = Literal["count", "memory", "compute", "media"]
_NAME = re.compile(r"(?:(?P<part>\d+)c\.)?(?P<slices>\d+)g\.\d+gb(?P<extra>[+-].*)?")


def causes(gpu: Gpu, wanted: Layout) -> tuple[_Shortage, ...]:
    """What there is too little of on an empty GPU; nothing where the layout fits, or where only the places are in the way."""
    return tuple(cause for cause, _ in _shortages(gpu, wanted))


def why_not(gpu: Gpu, wanted: Layout) -> str:
    said = [text for _, text in _shortages(gpu, wanted)]
    return "; ".join(said) or "the sums fit, but no choice of places does: the instances' legal starts collide"


def why_no_place(gpu: Gpu, in_use: Sequence[Placement], wanted: Sequence[str]) -> str:
    """For what both sums allow and the places do not."""
    needs = "; ".join(f"{name} starts at {_listed(gpu.profiles[name].kind.starts)}" for name in wanted)
    there = _listed([f"{p.profile} at {_slots(p)}" for p in sorted(in_use, key=lambda p: p.start)])
    return f"memory and compute would do, but {there} leave no legal place: {needs}"


def why_unknown(gpu: Gpu, name: str) -> str:
    for profile in gpu.profiles.values():
        if name in profile.also:
            return f"{name} is what some drivers call {profile.name} of {gpu.name}"
        if name in profile.compute_instances:
            return (
                f"{name} is a compute instance, {profile.compute_instances[name]} of which share one {profile.name}; "
                f"a layout counts whole instances"
            )
    slices = name.split("g.", 1)[0]
    own = [p.name for p in gpu.profiles.values() if p.name.split("g.", 1)[0] == slices and not re.search("[+-]", p.name)]
    near = own or difflib.get_close_matches(name, gpu.profiles, n=2, cutoff=0.5)
    hint = f" (its {slices}g: {', '.join(own)})" if own else f" (nearest: {', '.join(near)})" if near else ""
    return f"{gpu.name} has no profile {name}{hint}"


def own_name(gpu: Gpu, name: str) -> str | None:
    """This GPU's profile for a name that it has not: as many slices, the same extension, the least memory, or None."""
    for profile in gpu.profiles.values():
        if name in profile.also:
            return profile.name
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    extra = match["extra"] or ""
    alike = [p for p in gpu.profiles.values() if p.name.startswith(f"{match['slices']}g.")]
    own = [p for p in alike if p.name.endswith(f"gb{extra}")] or [p for p in alike if p.name.endswith("gb")]
    return min(own, key=lambda p: (p.kind.size, p.name)).name if own else None


def _shortages(gpu: Gpu, wanted: Layout) -> list[tuple[_Shortage, str]]:
    family = gpu.family
    assert family is not None
    kinds = [(gpu.profiles[name].kind, count) for name, count in wanted.items()]
    found: list[tuple[_Shortage, str]] = []
    for name, count in wanted.items():
        if count > (fits := _most(gpu, name)):
            found.append(("count", f"{name} x{count}: at most {fits} fit on one GPU"))
    memory = sum(kind.size * count for kind, count in kinds)
    if memory > family.slots:
        found.append(("memory", f"{memory} of {family.slots} memory slots needed"))
    compute = sum(kind.compute * count for kind, count in kinds)
    if compute > family.compute:
        found.append(("compute", f"{compute} of {family.compute} compute slices needed"))
    for engine, have in family.engines.items():
        needed = sum(kind.engines.get(engine, 0) * count for kind, count in kinds)
        if needed > have:
            takers = [n for n, count in wanted.items() if count and gpu.profiles[n].kind.engines.get(engine)]
            without = " (profiles ending in -me take none)" if any(p.endswith("-me") for p in gpu.profiles) else ""
            found.append(
                ("media", f"{needed} of {have} media engines ({_ENGINES[engine]}) needed by {', '.join(takers)}{without}")
            )
    return found


@cache
def _most(gpu: Gpu, name: str) -> int:
    table = table_of(gpu)
    return max(count for counts in table.counts.values() if (count := counts[table.index[name]]) == sum(counts))


def _slots(placed: Placement) -> str:
    return f"slot {placed.start}" if placed.size == 1 else f"slots {placed.start}-{placed.start + placed.size - 1}"


def _listed(items: Sequence[object]) -> str:
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
