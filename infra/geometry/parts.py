"""Compute instances: several of them can share one GPU instance, such as three `1c.3g.20gb` one
3g.20gb.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from infra.catalog import Gpu, Profile
from infra.geometry.table import Layout, LayoutError


def gpu_instances(gpu: Gpu, layout: Layout) -> dict[str, int]:
    """The fewest GPU instances that hold the compute instances of `layout`; a plain profile name is
    one that fills its instance.

    `{"1c.3g.20gb": 4, "2g.10gb": 1}` is `{"3g.20gb": 2, "2g.10gb": 1}`. Whether these fit is
    `check`'s to say. Largest first into the fullest instance with room is exact here: an instance
    has at most 7 slices, those with more than 4 are alone on their GPU, and up to 4 slices no order
    is better. Raises LayoutError for names that the GPU has not. Source of what shares: `nvidia-smi
    mig -lcip`.
    """
    asked: dict[str, Counter[int]] = {}
    for name, count in layout.items():
        profile, slices = _parsed(gpu, name)
        asked.setdefault(profile.name, Counter())[slices] += count
    return {
        name: n
        for name, parts in asked.items()
        if (n := instances_holding(gpu.profiles[name].kind.compute, parts))
    }


def _parsed(gpu: Gpu, name: str) -> tuple[Profile, int]:
    for profile in gpu.profiles.values():
        if name == profile.name:
            return profile, profile.kind.compute
        if name in profile.compute_instances:
            return profile, int(name.split("c.", 1)[0])
    raise LayoutError(f"{gpu.name} has no profile {name}")


def instances_holding(slices: int, parts: Mapping[int, int]) -> int:
    """How many instances of `slices` hold the parts (size -> count). By counting, not part by part:
    a count may be any number.
    """
    rooms: Counter[int] = Counter()
    opened = 0
    for size in sorted(parts, reverse=True):
        left = parts[size]
        for room in sorted(r for r in rooms if r >= size and rooms[r]):
            left -= _pack(rooms, room, rooms[room], size, left)
        fresh = -(-left // (slices // size))
        opened += fresh
        rooms[slices] += fresh
        _pack(rooms, slices, fresh, size, left)
    return opened


def _pack(rooms: Counter[int], room: int, instances: int, size: int, parts: int) -> int:
    """Puts parts of `size` into instances with that much room, as many as fit; how many were
    put.
    """
    each = room // size
    placed = min(parts, instances * each)
    full, rest = divmod(placed, each)
    rooms[room] -= full + bool(rest)
    rooms[room - each * size] += full
    if rest:
        rooms[room - rest * size] += 1
    return placed


def compute_instances(gpu: Gpu, profile: str) -> Mapping[str, int]:
    """How a GPU instance can be shared: compute-instance profile -> how many fill it, the one that
    takes it all included.
    """
    own = gpu.profiles[profile]
    return {**own.compute_instances, own.name: 1}
