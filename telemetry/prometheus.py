"""The Prometheus text exposition format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slicewright.telemetry.plain import plain


@dataclass(frozen=True)
class Sample:
    labels: str
    """The result of `labels`."""
    value: float
    suffix: str = ""
    """`_bucket`, `_sum`, `_count` of a histogram."""


@dataclass(frozen=True)
class Family:
    """A metric with its samples, omitted from the page if it has none."""

    name: str
    kind: str
    text: str
    samples: tuple[Sample, ...]


class Histogram:
    """Counts observed values by upper bounds. Not thread-safe."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._below = [0] * len(self._bounds)
        self._count = 0
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._count += 1
        self._sum += value
        for position, bound in enumerate(self._bounds):
            self._below[position] += value <= bound

    def samples(self, **pairs: str) -> tuple[Sample, ...]:
        """The samples of the histogram, each with the labels in `pairs`."""
        return (
            *(
                Sample(labels(**pairs, le=f"{bound:g}"), below, "_bucket")
                for bound, below in zip(self._bounds, self._below, strict=True)
            ),
            Sample(labels(**pairs, le="+Inf"), self._count, "_bucket"),
            Sample(labels(**pairs), round(self._sum, 6), "_sum"),
            Sample(labels(**pairs), self._count, "_count"),
        )


def lines(family: Family) -> Iterator[str]:
    if family.samples:
        yield f"# HELP {family.name} {family.text}"
        yield f"# TYPE {family.name} {family.kind}"
        for sample in family.samples:
            yield f"{family.name}{sample.suffix}{sample.labels} {_number(sample.value)}"


def labels(**pairs: str) -> str:
    """`{gpu="0",profile="1g.5gb"}`, plain and escaped, or empty without pairs."""
    if not pairs:
        return ""
    escaped = {k: plain(v).replace("\\", r"\\").replace('"', r"\"") for k, v in pairs.items()}
    return "{" + ",".join(f'{k}="{v}"' for k, v in escaped.items()) + "}"


def _number(value: float) -> str:
    # Whole numbers without an exponent, for people who read the page: 85899345920.
    return str(int(value)) if value == int(value) else str(value)
