"""The number of replicas that exist at the same time, from their starts and ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Replicas that start and end together. They exist at their start, and no longer at their end;
    an interval without length counts at its start.
    """

    start: Decimal
    end: Decimal | None
    """None: they still exist when the trace ends."""
    replicas: int


def span_of(intervals: Iterable[Interval]) -> tuple[Decimal, Decimal]:
    """Returns the first start and the last time of a trace with intervals."""
    times = [(i.start, i.start if i.end is None else i.end) for i in intervals]
    return min(start for start, _ in times), max(end for _, end in times)


def concurrent(
    intervals: Iterable[Interval], span: tuple[Decimal, Decimal], percentile: int
) -> int:
    """Returns the least number of replicas that are enough for this share of the span's time.

    percentile: 1 to 100. 100 is the peak: enough at every moment.
    """
    levels = [*_levels(intervals, span)]
    if percentile == 100:
        return max((replicas for replicas, _ in levels), default=0)
    # Times have decimals: the least number whose share of the span is not below the percentile.
    needed = (span[1] - span[0]) * percentile / 100
    within = Decimal(0)
    for replicas, seconds in sorted(levels):
        within += seconds
        if within >= needed:
            return replicas
    return 0


def _levels(
    intervals: Iterable[Interval], span: tuple[Decimal, Decimal]
) -> Iterator[tuple[int, Decimal]]:
    """Yields each number of replicas with the seconds that it lasts, from the start of the span."""
    changes: dict[Decimal, list[int]] = {}
    for interval in intervals:
        end = span[1] if interval.end is None else interval.end
        # Starts, ends of earlier replicas, ends of those that start at this moment.
        started, ended, instant = 0, 1, 2
        changes.setdefault(interval.start, [0, 0, 0])[started] += interval.replicas
        kind = instant if end == interval.start else ended
        changes.setdefault(end, [0, 0, 0])[kind] += interval.replicas
    times = sorted(changes)
    replicas, before = 0, span[0]
    for time in times:
        yield replicas, time - before
        started, ended, instant = changes[time]
        replicas += started - ended
        yield replicas, Decimal(0)
        replicas -= instant
        before = time
    yield replicas, span[1] - before
