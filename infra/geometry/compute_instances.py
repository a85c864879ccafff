"""Compute instances. Several can share a GPU instance: three `1c.3g.20gb` in a 3g.20gb."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slicewright.infra.catalog import Gpu, Profile
from slicewright.infra.geometry.table import Layout, LayoutError


def gpu_instances(gpu: Gpu, layout: Layout) -> dict[str, int]:
    """The fewest GPU instances that hold the compute instances of `layout`.

    A plain profile name is a compute instance that fills its GPU instance: `{"1c.3g.20gb": 4,
    "2g.10gb": 1}` needs `{"3g.20gb": 2, "2g.10gb": 1}`, which may not fit (see `check`). First-fit
    decreasing is exact here: a GPU instance has at most 7 slices, an instance with more than 4 is
    alone on its GPU, and up to 4 slices no order is better. Raises LayoutError for a name that the
    GPU does not have. Source: `nvidia-smi mig -lcip`.
    """
    parts_of: dict[str, Counter[int]] = {}
    for name, count in layout.items():
        profile, slices = _parsed(gpu, name)
        parts_of.setdefault(profile.name, Counter())[slices] += count
    return {
        name: n
        for name, parts in parts_of.items()
        if (n := instances_holding(gpu.profiles[name].kind.compute, parts))
    }


def _parsed(gpu: Gpu, name: str) -> tuple[Profile, int]:
    for profile in gpu.profiles.values():
        if name == profile.name:
            return profile, profile.kind.compute
        if name in profile.compute_instances:
            return profile, int(name.partition("c.")[0])
    raise LayoutError(f"{gpu.name} has no profile {name}")


def instances_holding(slices: int, parts: Mapping[int, int]) -> int:
    """How many GPU instances of `slices` the parts (size -> count) need. Counts may be huge."""
    free: Counter[int] = Counter()
    opened = 0
    for size in sorted(parts, reverse=True):
        remaining = parts[size]
        for space in [s for s in free if s >= size]:
            remaining -= _pack(free, space, free[space], size, remaining)
        fresh = -(-remaining // (slices // size))
        opened += fresh
        free[slices] += fresh
        _pack(free, slices, fresh, size, remaining)
    return opened


def _pack(free: Counter[int], space: int, instances: int, size: int, parts: int) -> int:
    """Puts parts of `size` into `instances` with `space` free slices each. Returns how many fit."""
    each = space // size
    placed = min(parts, instances * each)
    full, rest = divmod(placed, each)
    free[space] -= full + bool(rest)
    free[space - each * size] += full
    if rest:
        free[space - rest * size] += 1
    return placed


def compute_instances(gpu: Gpu, profile: str) -> Mapping[str, int]:
    """Compute instance profile -> how many fill a GPU instance, which has its own profile, too."""
    instance = gpu.profiles[profile]
    return {**instance.compute_instances, instance.name: 1}
