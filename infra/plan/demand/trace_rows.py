"""Reads a trace: a CSV file with a row for each replica that ran, or for several that are alike."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Final

from slicewright.infra import catalog
from slicewright.infra.plan.demand.class_names import class_name
from slicewright.infra.plan.demand.concurrency import Interval

MOST_REPLICAS: Final = 10_000_000
"""The maximum of `replicas` in a stack file."""
_MOST_GPUS: Final = 16
_MOST_SECONDS: Final = 10**12
_MOST_MIB: Final = 10**9
_SLICES: Final = 7
_LARGEST_PARTITION: Final = 4
"""The most compute slices of a partition that leaves room for another one."""
_NUMBER: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?(e\+?[0-9]{1,2})?", re.ASCII | re.I)
_DEVICES: Final = ("gpu_memory_mib", "gpu_share", "gpus")
_OPENB: Final = {"num_gpu", "gpu_milli"}
_LONGEST_QUOTE: Final = 40


class BadTrace(Exception):
    """The file is no trace that could be read. The message names the file and the line."""


@dataclass(frozen=True, order=True, kw_only=True)
class Device:
    """The device of one replica. 0: no requirement."""

    memory_mib: int = 0
    compute_slices: int = 0
    gpus: int = 0
    """Whole GPUs."""


@dataclass(frozen=True, kw_only=True)
class TraceRow:
    name: str
    """The column `class` as a DNS label, or empty."""
    device: Device | None
    """None: the row requests no GPU."""
    replicas: int
    interval: Interval | None
    """None: the trace has no times."""


class _Cells:
    """One row by column. Messages name its line."""

    def __init__(self, cells: Mapping[str, str], place: str) -> None:
        self._cells = cells
        self._place = place

    def text(self, column: str) -> str:
        return self._cells.get(column, "")

    def number(self, column: str, most: int) -> Decimal | None:
        """Returns the number, and None for an empty cell or a missing column."""
        text = self.text(column)
        if not text:
            return None
        if not _NUMBER.fullmatch(text) or Decimal(text) > most:
            raise self.refused(f"{column} {_quoted(text)} is not a number from 0 to {most:,}")
        return Decimal(text)

    def count(self, column: str, most: int) -> int | None:
        number = self.number(column, most)
        if number is not None and number != int(number):
            raise self.refused(f"{column} {_quoted(self.text(column))} is not a whole number")
        return None if number is None else int(number)

    def refused(self, reason: str) -> BadTrace:
        return BadTrace(f"{self._place}: {reason}")


def read_rows(text: str, name: str) -> Iterator[TraceRow]:
    """Yields the rows of a trace. name: of the file, for messages. Raises BadTrace."""
    header_line = text.partition("\n")[0]
    delimiter = max(",;\t", key=header_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [column.strip().lower() for column in next(reader, [])]
        read = _reader_of(header, name)
        for values in reader:
            if not values:
                continue
            place = f"{name}, line {reader.line_num}"
            if len(values) != len(header):
                raise BadTrace(f"{place}: has {len(values)} cells, the header {len(header)}")
            stripped = (value.strip() for value in values)
            yield read(_Cells(dict(zip(header, stripped, strict=True)), place))
    except csv.Error as e:
        raise BadTrace(f"{name}, line {reader.line_num}: is no CSV ({e})") from None


def _reader_of(header: Sequence[str], name: str) -> Callable[[_Cells], TraceRow]:
    """Returns the reader of the rows of a trace with these columns."""
    if not any(header):
        raise BadTrace(f"{name}, line 1: has no columns; it must name them")
    for column in header:
        if header.count(column) > 1:
            raise BadTrace(f"{name}, line 1: has the column {_quoted(column)} twice")
    if set(header) >= _OPENB:
        timed = "creation_time" in header
        return lambda cells: _openb_row(cells, timed)
    if not set(_DEVICES) & set(header):
        columns = ", ".join(map(_quoted, header[:5]))
        raise BadTrace(
            f"{name}, line 1: has no column {', '.join(_DEVICES[:2])} or {_DEVICES[2]}, but "
            f"{columns}; docs/how-to/plan-the-least-fleet.md lists the columns"
        )
    timed = "start" in header
    if timed != bool({"end", "duration"} & set(header)):
        raise BadTrace(f"{name}, line 1: needs start together with end or duration, or no times")
    return lambda cells: _plain_row(cells, timed)


def _openb_row(cells: _Cells, timed: bool) -> TraceRow:
    """Reads Alibaba's format, as in the trace openb. Its memory_mib is that of the node."""
    gpus = cells.count("num_gpu", _MOST_GPUS) or 0
    share = cells.number("gpu_milli", 1000)
    device = None
    if gpus == 1 and share is not None and share < 1000:
        device = _part(cells, share=share / 1000, memory=None)
    elif gpus:
        device = Device(gpus=gpus)
    start = cells.number("creation_time", _MOST_SECONDS)
    end = cells.number("deletion_time", _MOST_SECONDS)
    interval = _interval(cells, start, end, 1) if timed else None
    return TraceRow(name="", device=device, replicas=1, interval=interval)


def _plain_row(cells: _Cells, timed: bool) -> TraceRow:
    replicas = cells.count("replicas", MOST_REPLICAS)
    replicas = 1 if replicas is None else replicas
    interval = None
    if timed:
        start = cells.number("start", _MOST_SECONDS)
        end = cells.number("end", _MOST_SECONDS)
        duration = cells.number("duration", _MOST_SECONDS)
        if end is None and start is not None and duration is not None:
            end = start + duration
        interval = _interval(cells, start, end, replicas)
    name = class_name(cells.text("class"))
    return TraceRow(name=name, device=_device(cells), replicas=replicas, interval=interval)


def _interval(cells: _Cells, start: Decimal | None, end: Decimal | None, replicas: int) -> Interval:
    if start is None:
        raise cells.refused("has no start")
    if end is not None and end < start:
        raise cells.refused(f"ends at {end:f}, before its start at {start:f}")
    return Interval(start=start, end=end, replicas=replicas)


def _device(cells: _Cells) -> Device | None:
    memory = cells.number("gpu_memory_mib", _MOST_MIB)
    share = cells.number("gpu_share", 1)
    gpus = cells.count("gpus", _MOST_GPUS)
    if memory is None and share is None and gpus is None:
        raise cells.refused(f"has no {', '.join(_DEVICES[:2])} or {_DEVICES[2]}")
    if gpus and share is not None:
        raise cells.refused("has gpu_share and gpus; a replica gets part of a GPU, or whole ones")
    if gpus:
        return Device(gpus=gpus, memory_mib=_memory(cells, memory or Decimal(0), gpus))
    if not memory and not share:
        return None
    return _part(cells, share=share, memory=memory)


def _part(cells: _Cells, *, share: Decimal | None, memory: Decimal | None) -> Device:
    """Returns a partition, or a whole GPU if no partition has the share."""
    slices = 0 if share is None else max(1, math.ceil(share * _SLICES))
    memory_mib = _memory(cells, memory or Decimal(0), 1)
    if slices > _LARGEST_PARTITION:
        return Device(gpus=1, memory_mib=memory_mib)
    return Device(compute_slices=slices, memory_mib=memory_mib)


def _memory(cells: _Cells, memory: Decimal, gpus: int) -> int:
    """Returns the memory rounded up to that of the next larger device. The same devices have it,
    and a trace with many amounts of memory has few classes.
    """
    if not memory:
        return 0
    sizes = _memory_sizes()
    per_gpu = math.ceil(memory / gpus)
    larger = [size for size in sizes if size >= per_gpu]
    if not larger:
        raise cells.refused(
            f"gpu_memory_mib {memory:f} is more than {gpus} GPU{'s' if gpus > 1 else ''} can have "
            f"({sizes[-1] * gpus:,} MiB)"
        )
    return larger[0] * gpus


@cache
def _memory_sizes() -> tuple[int, ...]:
    """The usable memory of each device of the catalog, in MiB."""
    sizes = set()
    for gpu in catalog.load().gpus.values():
        sizes |= {gpu.memory_mib, *(profile.memory_mib for profile in gpu.profiles.values())}
    return tuple(sorted(size for size in sizes if size is not None))


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…")
