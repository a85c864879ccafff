"""Profile names that a GPU lacks: another GPU's, an older driver's, or compute instances."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from slicewright.infra.catalog import Gpu, Profile

_NAME = re.compile(r"(?:\d+c\.)?(?P<slices>\d+)g\.\d+gb(?P<extra>[+-].*)?")


def why_unknown(gpu: Gpu, name: str) -> str:
    gpu_names = _names_of(gpu)
    if current := gpu_names.also.get(name):
        return f"{name} is another name of {gpu.name}'s {current} in some drivers"
    if whole := gpu_names.compute.get(name):
        return (
            f"{name} is a compute instance profile, {whole.compute_instances[name]} of which share "
            f"one {whole.name}; a layout counts GPU instances"
        )
    match = _NAME.fullmatch(name)
    if match is None:
        return f"{gpu.name} has no profile {name}"
    slices = int(match["slices"])
    if own_sizes := gpu_names.plain.get(slices):
        return f"{gpu.name} has no profile {name} (its {slices}g: {', '.join(own_sizes)})"
    closest = min(abs(slices - other) for other in gpu_names.plain)
    near = [
        n
        for other, names in gpu_names.plain.items()
        if abs(slices - other) == closest
        for n in names
    ]
    return f"{gpu.name} has no profile {name} (nearest: {', '.join(near)})"


def own_name(gpu: Gpu, name: str) -> str | None:
    """The smallest profile with as many slices and, if possible, the same extension, or None."""
    names = _names_of(gpu)
    if current := names.also.get(name):
        return current
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    slices = int(match["slices"])
    return names.smallest.get((slices, match["extra"])) or names.smallest.get((slices, ""))


def nearest_of(names: Iterable[str], name: str) -> str:
    """The name with the most similar number of slices, then memory."""
    return min(
        names,
        key=lambda other: [
            abs(a - b) for a, b in zip(_numbers(other), _numbers(name), strict=True)
        ],
    )


def _numbers(name: str) -> tuple[int, int]:
    slices, memory, *_ = re.findall(r"(\d+)g", name)
    return int(slices), int(memory)


def is_compute_instance(gpu: Gpu, name: str) -> bool:
    """Whether `name` is a compute instance profile that shares its GPU instance."""
    return name in _names_of(gpu).compute


class _Names:
    def __init__(self, gpu: Gpu) -> None:
        self.also = {
            other: profile.name for profile in gpu.profiles.values() for other in profile.also
        }
        self.compute = {
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
    assert match is not None, "profile names in the catalog have NVIDIA's form"
    return int(match["slices"]), match["extra"] or ""
