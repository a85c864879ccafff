"""Why a layout does not fit, as a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry.table import Layout, Placement

_ENGINES: Mapping[str, str] = {"ofa": "OFA", "nvdec": "video decoders"}
_Shortage = Literal["count", "memory", "compute", "media"]


def shortages(gpu: Gpu, layout: Layout) -> tuple[tuple[_Shortage, ...], str]:
    """The resources that an empty GPU has too little of, and the message. Both are empty if only
    placements collide, as with instances in use.
    """
    causes = _shortages(gpu, layout)
    return tuple([cause for cause, _ in causes]), "; ".join([text for _, text in causes])


def no_placement(gpu: Gpu, in_use: Sequence[Placement], names: Sequence[str]) -> str:
    """The message for profiles that have enough memory and compute but no free placement."""
    needs = "; ".join(
        f"{name} starts at {_listed(gpu.profiles[name].kind.starts)}" for name in names
    )
    existing = _listed(
        [f"{p.profile} at {_slots(p)}" for p in sorted(in_use, key=lambda p: p.start)]
    )
    return f"memory and compute suffice, but {existing} leave no placement: {needs}"


def _shortages(gpu: Gpu, layout: Layout) -> list[tuple[_Shortage, str]]:
    family = gpu.family
    assert family is not None
    causes: list[tuple[_Shortage, str]] = []
    memory = compute = 0
    media = dict.fromkeys(family.engines, 0)
    for name, count in layout.items():
        kind = gpu.profiles[name].kind
        memory += kind.size * count
        compute += kind.compute * count
        for engine, cost in kind.engines.items():
            media[engine] += cost * count
        if count > kind.most:
            causes.append(("count", f"{name} x{count}: at most {kind.most} fit on one GPU"))
    if memory > family.slots:
        causes.append(("memory", f"{memory} of {family.slots} memory slots needed"))
    if compute > family.compute:
        causes.append(("compute", f"{compute} of {family.compute} compute slices needed"))
    for engine, needed in media.items():
        if needed > (have := family.engines[engine]):
            takers = [
                n
                for n, count in layout.items()
                if count and gpu.profiles[n].kind.engines.get(engine)
            ]
            without = (
                " (profiles ending in -me need none)"
                if any(p.endswith("-me") for p in gpu.profiles)
                else ""
            )
            causes.append(
                (
                    "media",
                    f"{needed} of {have} media engines ({_ENGINES[engine]}) needed by "
                    f"{', '.join(takers)}{without}",
                )
            )
    return causes


def _slots(placed: Placement) -> str:
    return (
        f"slot {placed.start}"
        if placed.size == 1
        else f"slots {placed.start}-{placed.start + placed.size - 1}"
    )


def _listed(items: Sequence[object]) -> str:
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
