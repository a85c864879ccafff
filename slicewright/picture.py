"""Draws a GPU as text: its memory slots and compute slices, and the instances on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from infra import geometry
from infra.catalog import Gpu
from infra.geometry import Fit, Placement

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green")
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
    names = {p: p.profile for p in placements}
    cell = max(
        [
            _NARROWEST,
            *(
                -(-(len(p.profile) + 2) // max(1, min(p.size, compute[p] * per)))
                for p in placements
            ),
        ]
    )
    legend: Mapping[str, str] = {}
    if _LABEL + cell * slots > width:
        cell = _NARROWEST
        profiles = sorted({p.profile for p in placements})
        legend = {profile: chr(ord("A") + i) for i, profile in enumerate(profiles)}
        names = {p: legend[p.profile] for p in placements}
    colours = {
        profile: _COLOURS[i % len(_COLOURS)]
        for i, profile in enumerate(sorted({p.profile for p in placements}))
    }

    numbers = Text("slot".ljust(_LABEL), style="dim")
    numbers.append("".join(str(slot).center(cell) for slot in range(slots)).rstrip())
    lines = [
        numbers,
        _row(
            "memory",
            slots,
            cell,
            [(p.start, p.size, names[p], colours[p.profile]) for p in placements],
        ),
        _row(
            "compute",
            slices,
            cell * per,
            [(p.start // per, compute[p], names[p], colours[p.profile]) for p in placements],
        ),
    ]
    if pods:
        marks = [(p.start, p.size, pods.get(p.profile, ""), colours[p.profile]) for p in placements]
        lines.append(
            _row(
                "pods",
                slots,
                cell,
                [
                    (start, size, mark if len(mark) <= size * cell - 2 else "…", colour)
                    for start, size, mark, colour in marks
                    if mark
                ],
            )
        )
    if legend:
        lines.append(
            Text(
                " " * _LABEL
                + ", ".join(f"{letter} = {profile}" for profile, letter in legend.items())
            )
        )
    return lines


def _row(label: str, columns: int, cell: int, taken: Sequence[tuple[int, int, str, str]]) -> Text:
    """taken: first column, number of columns, name, colour."""
    line = Text(label.ljust(_LABEL))
    starts = {start: (size, name, colour) for start, size, name, colour in taken if size}
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
