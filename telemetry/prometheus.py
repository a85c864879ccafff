"""The Prometheus text exposition format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from telemetry.plain import plain


@dataclass(frozen=True)
class Sample:
    labels: str
    """From `labels`."""
    value: float
    suffix: str = ""
    """`_bucket`, `_sum`, `_count` of a histogram."""


@dataclass(frozen=True)
class Family:
    """One metric with its samples; written only if there are any."""

    name: str
    kind: str
    text: str
    samples: tuple[Sample, ...]


def lines(family: Family) -> Iterator[str]:
    if family.samples:
        yield f"# HELP {family.name} {family.text}"
        yield f"# TYPE {family.name} {family.kind}"
        for sample in family.samples:
            yield f"{family.name}{sample.suffix}{sample.labels} {_number(sample.value)}"


def labels(**pairs: str) -> str:
    """`{gpu="0",profile="1g.5gb"}`, plain and escaped; empty without pairs."""
    if not pairs:
        return ""
    escaped = {k: plain(v).replace("\\", r"\\").replace('"', r"\"") for k, v in pairs.items()}
    return "{" + ",".join(f'{k}="{v}"' for k, v in escaped.items()) + "}"


def _number(value: float) -> str:
    # Whole numbers without an exponent, for people who read the page: 85899345920.
    return str(int(value)) if value == int(value) else str(value)
