"""What a profile's name may mean that the GPU has not: another GPU's, an older driver's, or a
compute instance's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from infra.catalog import Gpu, Profile

_NAME = re.compile(r"(?:\d+c\.)?(?P<slices>\d+)g\.\d+gb(?P<extra>[+-].*)?")


def why_unknown(gpu: Gpu, name: str) -> str:
    known = _names_of(gpu)
    if own := known.also.get(name):
        return f"{name} is what some drivers call {own} of {gpu.name}"
    if whole := known.parts.get(name):
        return (
            f"{name} is a compute instance, {whole.compute_instances[name]} of which share "
            f"one {whole.name}; "
            f"a layout counts whole instances"
        )
    match = _NAME.fullmatch(name)
    if match is None:
        return f"{gpu.name} has no profile {name}"
    slices = int(match["slices"])
    if own_sizes := known.plain.get(slices):
        return f"{gpu.name} has no profile {name} (its {slices}g: {', '.join(own_sizes)})"
    closest = min(abs(slices - other) for other in known.plain)
    near = [
        n for other, names in known.plain.items() if abs(slices - other) == closest for n in names
    ]
    return f"{gpu.name} has no profile {name} (nearest: {', '.join(near)})"


def own_name(gpu: Gpu, name: str) -> str | None:
    """This GPU's profile for a name that it has not: as many slices, the same extension, the least
    memory, or None.
    """
    known = _names_of(gpu)
    if own := known.also.get(name):
        return own
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    slices = int(match["slices"])
    return known.smallest.get((slices, match["extra"] or "")) or known.smallest.get((slices, ""))


def nearest_of(names: Iterable[str], name: str) -> str:
    """Of some profiles the one with the most similar number of slices, then of memory."""
    return min(
        names,
        key=lambda other: [
            abs(a - b) for a, b in zip(_numbers(other), _numbers(name), strict=True)
        ],
    )


def _numbers(name: str) -> tuple[int, int]:
    slices, memory = re.findall(r"(\d+)g", name)[:2]
    return int(slices), int(memory)


def is_part(gpu: Gpu, name: str) -> bool:
    """Whether it is the name of a compute instance that shares its GPU instance."""
    return name in _names_of(gpu).parts


class _Names:
    def __init__(self, gpu: Gpu) -> None:
        self.also = {
            other: profile.name for profile in gpu.profiles.values() for other in profile.also
        }
        self.parts = {
            part: profile for profile in gpu.profiles.values() for part in profile.compute_instances
        }
        self.plain: dict[int, list[str]] = {}
        self.smallest: dict[tuple[int, str], str] = {}
        for profile in sorted(gpu.profiles.values(), key=lambda p: (p.kind.size, p.name)):
            slices, extra = _read(profile)
            self.smallest.setdefault((slices, extra), profile.name)
            if not extra:
                self.plain.setdefault(slices, []).append(profile.name)


@cache
def _names_of(gpu: Gpu) -> _Names:
    return _Names(gpu)


def _read(profile: Profile) -> tuple[int, str]:
    match = _NAME.fullmatch(profile.name)
    assert match is not None, "the catalog's names are NVIDIA's"
    return int(match["slices"]), match["extra"] or ""
