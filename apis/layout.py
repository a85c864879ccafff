"""The layout language: `2:3g.20gb@0,3g.20gb@4`, `all:1g.5gb*7`, `0-3,5:off`.

There is one clause per group of GPUs. Clauses are separated by spaces, semicolons or line ends, and
`#` begins a comment:

    clause    GPUS:WHAT
    GPUS      all | 2 | 0-3 | GPU-<uuid> | a list of these with commas; `all` means every GPU that
              no other clause names
    WHAT      off (no MIG) | empty (MIG on, no partition) | partitions with commas
    partition PROFILE[@START][*COUNT]

PROFILE is NVIDIA's name (`3g.20gb`, `1g.10gb+me`) or its number (`9`). `1c.3g.40gb*3` are three
compute instances that share GPU instances. START is the first memory slice of the GPU instance.
Without it, a free placement is searched. `x7` means the same as `*7`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_ITEM = re.compile(
    r"(?:(?P<compute>[1-9])c\.)?"
    r"(?P<profile>[1-9]\d?g\.\d{1,4}gb(?:[+-][a-z][a-z0-9.]*?(?:,[a-z][a-z0-9.]*?)*)?|\d{1,3})"
    r"(?:@(?P<start>\d{1,2}))?(?:[*x](?P<count>[1-9]\d?))?"
)
_RANGE = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class LayoutError(ValueError):
    """The text is not a layout, or not one for this machine. The message names every problem."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """`count` MIG devices of one kind."""

    profile: str
    """NVIDIA's name of the GPU instance profile, or its number in decimal."""
    start: int | None = None
    """First memory slice of the GPU instance, or None for any."""
    compute_slices: int | None = None
    """Compute slices of each device. None means all slices of its GPU instance."""
    count: int = 1

    def __str__(self) -> str:
        compute = f"{self.compute_slices}c." if self.compute_slices else ""
        start = "" if self.start is None else f"@{self.start}"
        return f"{compute}{self.profile}{start}{f'*{self.count}' if self.count > 1 else ''}"


@dataclass(frozen=True, kw_only=True)
class GpuLayout:
    """The desired partitions of one GPU."""

    mig: bool
    parts: tuple[Partition, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.parts)) or ("empty" if self.mig else "off")


WHOLE = GpuLayout(mig=False)
"""MIG off."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The desired partitions of some or all GPUs of a machine."""

    clauses: tuple[tuple[tuple[str, ...], GpuLayout], ...]
    """GPUs as written (`all`, `2`, `GPU-…`, with ranges expanded), and their desired partitions."""

    def __str__(self) -> str:
        return " ".join(
            f"{','.join(selectors)}:{gpu_layout}" for selectors, gpu_layout in self.clauses
        )

    def resolve(self, gpus: Mapping[int, str]) -> dict[int, GpuLayout]:
        """Returns the layout by NVML index, for the GPUs of a machine (index -> UUID).

        Raises LayoutError for a GPU that the machine does not have, or that is named twice.
        """
        selected = _Selected(gpus)
        for selectors, gpu_layout in self.clauses:
            for selector in selectors:
                selected.add(selector, gpu_layout)
        if selected.problems:
            raise LayoutError("\n".join(selected.problems))
        default = selected.default
        layouts = {**({} if default is None else dict.fromkeys(gpus, default)), **selected.layouts}
        return dict(sorted(layouts.items()))


class _Selected:
    """The GPUs of a machine that the clauses of a layout have selected so far."""

    def __init__(self, gpus: Mapping[int, str]) -> None:
        """gpus: index -> UUID."""
        self._gpus = gpus
        self._by_uuid = {uuid.lower(): index for index, uuid in gpus.items()}
        self.layouts: dict[int, GpuLayout] = {}
        self.default: GpuLayout | None = None
        """The layout of `all`, for GPUs that no other clause names."""
        self.problems: list[str] = []

    def add(self, selector: str, gpu_layout: GpuLayout) -> None:
        if selector == "all":
            self._add_default(gpu_layout)
            return
        index = int(selector) if selector.isdigit() else self._by_uuid.get(selector.lower(), -1)
        if index not in self._gpus:
            gpus = _describe_gpus(sorted(self._gpus))
            self.problems.append(f"{selector}: no such GPU; this machine has {gpus}")
        elif index in self.layouts:
            self.problems.append(f"{selector}: GPU {index} is named twice")
        else:
            self.layouts[index] = gpu_layout

    def _add_default(self, gpu_layout: GpuLayout) -> None:
        if self.default is not None:
            self.problems.append("all: named twice")
        if not self._gpus:
            self.problems.append("all: this machine has no GPU")
        self.default = gpu_layout


def parse(texts: Iterable[str], *, source: str = "layout") -> Layout:
    """Parses a layout. Raises LayoutError with every problem."""
    clauses, problems = [], []
    for text in texts:
        for line in text.splitlines():
            for clause in re.split(r"[\s;]+", line.partition("#")[0].strip()):
                if clause:
                    try:
                        clauses.append(_clause(clause))
                    except LayoutError as e:
                        problems.append(f"{clause}: {e}")
    if not clauses and not problems:
        problems.append("is empty; write for example 2:3g.20gb@0,3g.20gb@4 or all:1g.5gb*7")
    if problems:
        raise LayoutError("\n".join(f"{source}: {problem}" for problem in problems))
    return Layout(clauses=tuple(clauses))


def parse_gpus(text: str, gpu_layout: GpuLayout, *, source: str = "layout") -> Layout:
    """Returns a layout that gives `gpu_layout` to the GPUs in `text`, written as before a clause's
    colon.

    Raises LayoutError.
    """
    try:
        return Layout(clauses=((tuple(_selectors(text)), gpu_layout),))
    except LayoutError as e:
        raise LayoutError(f"{source}: {e}") from None


def ranges(indexes: Iterable[int]) -> str:
    """Returns indexes for people, such as `0-2, 5`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _clause(text: str) -> tuple[tuple[str, ...], GpuLayout]:
    gpus, colon, content = text.partition(":")
    if not colon or not gpus or not content:
        raise LayoutError(
            "write GPUS:WHAT, for example 2:3g.20gb@0,3g.20gb@4, all:1g.5gb*7 or 0-3:off"
        )
    return tuple(_selectors(gpus)), _gpu_layout(content)


def _selectors(text: str) -> Iterator[str]:
    for item in text.split(","):
        if item == "all" or _UUID.fullmatch(item):
            yield item
            continue
        numbers = _RANGE.fullmatch(item)
        if not numbers:
            raise LayoutError(
                f"{item!r} is not a GPU; write a number, a range like 0-3, GPU-<uuid> or all"
            )
        first, last = int(numbers[1]), int(numbers[2] or numbers[1])
        if last < first:
            raise LayoutError(f"{item}: the range is empty; write {last}-{first}")
        yield from map(str, range(first, last + 1))


def _gpu_layout(text: str) -> GpuLayout:
    if text in ("off", "empty"):
        return GpuLayout(mig=text == "empty")
    # A comma inside a profile's attributes is followed by a letter, and one between partitions by a
    # digit.
    return GpuLayout(mig=True, parts=tuple(map(_part, re.split(r",(?=\d)", text))))


def _part(text: str) -> Partition:
    match = _ITEM.fullmatch(text)
    if not match:
        raise LayoutError(
            f"{text!r} is not a partition; write PROFILE[@START][*COUNT], for example "
            "3g.20gb@4 or 1g.5gb*7, or off"
        )
    part = Partition(
        profile=match["profile"],
        start=int(match["start"]) if match["start"] else None,
        compute_slices=int(match["compute"]) if match["compute"] else None,
        count=int(match["count"] or 1),
    )
    if part.start is not None and part.count > 1 and part.compute_slices is None:
        raise LayoutError(
            f"{text!r}: {part.count} instances cannot all start at {part.start}; give each "
            "its own start"
        )
    return part


def _describe_gpus(indexes: list[int]) -> str:
    return f"GPU {', '.join(map(str, indexes))}" if indexes else "none"
