"""Draws a GPU as text: its memory slots and compute slices, and the instances on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from slicewright.infra import geometry
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import Fit, Placement

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
_NARROWEST = 4
_LABEL = 8


def placements_of(gpu: Gpu, layout: Mapping[str, int]) -> tuple[Placement, ...]:
    """One way to place a layout's instances, sorted by start. The driver may choose another."""
    fit = geometry.check(gpu, layout)
    return tuple(sorted(fit.placements, key=lambda p: p.start)) if isinstance(fit, Fit) else ()


def draw(
    gpu: Gpu,
    placements: Sequence[Placement],
    *,
    width: int,
    pods: Mapping[str, str] | None = None,
) -> list[Text]:
    """Returns three lines: slot numbers, memory, compute. Long names become letters with a legend.

    pods: MIG profile -> workloads that may run on its instances, for a fourth line, cut to fit.
    """
    assert gpu.family is not None, "a GPU without MIG has no slots"
    slots, slices = gpu.family.slots, gpu.family.compute
    # Memory slots per compute slice: 1, or 3 on GPUs with 12 and 4. With 8 and 7, the eighth slot
    # has no slice.
    per = slots // slices
    compute = {p: gpu.profiles[p.profile].kind.compute for p in placements}
    profiles = sorted({p.profile for p in placements})
    cell = _cell_width(placements, compute, per)
    legend: Mapping[str, str] = {}
    if _LABEL + cell * slots > width:
        cell = _NARROWEST
        legend = {profile: chr(ord("A") + i) for i, profile in enumerate(profiles)}
    colours = {profile: COLOURS[i % len(COLOURS)] for i, profile in enumerate(profiles)}
    names = {p: legend.get(p.profile, p.profile) for p in placements}
    memory = [(p.start, p.size, names[p], colours[p.profile]) for p in placements]
    slices_used = [(p.start // per, compute[p], names[p], colours[p.profile]) for p in placements]
    lines = [
        _slot_numbers(slots, cell),
        _row("memory", slots, cell, memory),
        _row("compute", slices, cell * per, slices_used),
    ]
    if pods:
        marks = [(p.start, p.size, pods.get(p.profile, ""), colours[p.profile]) for p in placements]
        lines.append(_pods_row(slots, cell, marks))
    if legend:
        letters = ", ".join(f"{letter} = {profile}" for profile, letter in legend.items())
        lines.append(Text(" " * _LABEL + letters))
    return lines


def _cell_width(
    placements: Sequence[Placement], compute: Mapping[Placement, int], slots_per_slice: int
) -> int:
    """Returns the columns that a slot needs, so that the name of every instance fits into it."""
    widths = (
        -(-(len(p.profile) + 2) // max(1, min(p.size, compute[p] * slots_per_slice)))
        for p in placements
    )
    return max([_NARROWEST, *widths])


def _slot_numbers(slots: int, cell: int) -> Text:
    numbers = Text("slot".ljust(_LABEL), style="dim")
    numbers.append("".join(str(slot).center(cell) for slot in range(slots)).rstrip())
    return numbers


def _pods_row(slots: int, cell: int, marks: Sequence[tuple[int, int, str, str]]) -> Text:
    """marks: first column, number of columns, letters of workloads, colour."""
    fitting = [
        (start, size, mark if len(mark) <= size * cell - 2 else "…", colour)
        for start, size, mark, colour in marks
        if mark
    ]
    return _row("pods", slots, cell, fitting)


def _row(label: str, columns: int, cell: int, cells: Sequence[tuple[int, int, str, str]]) -> Text:
    """cells: first column, number of columns, name, colour."""
    line = Text(label.ljust(_LABEL))
    starts = {start: (size, name, colour) for start, size, name, colour in cells if size}
    column = 0
    while column < columns:
        if column in starts:
            size, name, colour = starts[column]
            line.append("[" + name.center(size * cell - 2) + "]", style=colour)
            column += size
        else:
            line.append("·".center(cell), style="dim")
            column += 1
    line.rstrip()
    return line
