"""A GPU drawn to scale: a column per memory slice, a box per GPU instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import ObservedGpu

_WIDTH = 9
"""Characters per memory slice: `1g.10gb` and a border. Eight fit in 80 columns."""
_ASSUMED_SLOTS = 8


@dataclass(frozen=True, kw_only=True)
class _Box:
    start: int
    size: int
    label: str = ""
    below: str = ""


def draw(gpu: ObservedGpu) -> Iterator[str]:
    """The lines, if any. Without placements (root only) the order is a guess."""
    boxes, slots, placed = _boxes(gpu)
    if not boxes:
        return
    columns = list(_fill_gaps(boxes, slots))
    if placed:
        yield "".join(str(slot).ljust(_WIDTH) for slot in range(slots)).rstrip()
    yield _rule("┌┬┐", columns)
    yield _row([box.label for box in columns], columns)
    yield _row([box.below for box in columns], columns)
    yield _rule("└┴┘", columns)
    if not placed:
        yield "sizes are to scale; only root can read placements"


def _boxes(gpu: ObservedGpu) -> tuple[list[_Box], int, bool]:
    computes: dict[int, int] = {}
    names: dict[int, str] = {}
    sizes: dict[int, int] = {}
    whole = max((p.memory_mib for p in gpu.offered), default=0) or gpu.memory_mib or 0
    for device in gpu.devices:
        name = profiles.name_of(device, gpu) or "unknown"
        names[device.gpu_instance] = (
            name.partition("c.")[2] if device.compute_slices != device.gpu_slices else name
        )
        computes[device.gpu_instance] = computes.get(device.gpu_instance, 0) + 1
        if whole:
            sizes[device.gpu_instance] = min(
                _ASSUMED_SLOTS, max(1, round(device.memory_mib / whole * _ASSUMED_SLOTS))
            )
    if gpu.gpu_instances is not None and gpu.memory_slices:
        offered = {p.id: profiles.name_of_profile(p, gpu.memory_mib) for p in gpu.offered}
        boxes = [
            _Box(
                start=i.start,
                size=i.size,
                label=names.get(i.id) or offered.get(i.profile) or "?",
                below=_below(i.id, computes),
            )
            for i in gpu.gpu_instances
        ]
        return boxes, gpu.memory_slices, True
    boxes, at = [], 0
    for instance in sorted(names):
        if instance not in sizes or at + sizes[instance] > _ASSUMED_SLOTS:
            return [], _ASSUMED_SLOTS, False
        boxes.append(
            _Box(
                start=at,
                size=sizes[instance],
                label=names[instance],
                below=_below(instance, computes),
            )
        )
        at += sizes[instance]
    return boxes, _ASSUMED_SLOTS, False


def _below(instance: int, computes: dict[int, int]) -> str:
    count = computes.get(instance, 0)
    return f"GI {instance}" if count == 1 else f"GI {instance}, {count} CI"


def _fill_gaps(boxes: Sequence[_Box], slots: int) -> Iterator[_Box]:
    at = 0
    for box in sorted(boxes, key=lambda b: b.start):
        if box.start > at:
            yield _Box(start=at, size=box.start - at)
        yield box
        at = box.start + box.size
    if at < slots:
        yield _Box(start=at, size=slots - at)


def _rule(corners: str, boxes: Sequence[_Box]) -> str:
    lines = ["─" * (box.size * _WIDTH - 1) for box in boxes]
    return corners[0] + corners[1].join(lines) + corners[2]


def _row(texts: Sequence[str], boxes: Sequence[_Box]) -> str:
    return "│" + "│".join(_cell(text, box) for text, box in zip(texts, boxes, strict=True)) + "│"


def _cell(text: str, box: _Box) -> str:
    width = box.size * _WIDTH - 1
    if not box.below:
        return " " + "·" * (width - 2) + " "
    room = width - 1
    return " " + (text if len(text) <= room else text[: room - 1] + "…").ljust(room)
