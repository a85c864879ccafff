"""The results of a load: figures over all requests, and per target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slicewright.load.load import Load
from slicewright.load.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class Times:
    """The distribution of a value over requests: milliseconds, or tokens per second."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    most: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of all targets, or of one."""

    answered: int
    failed: int
    per_second: float
    """Answered requests per second."""
    latency_ms: Times | None
    """None: no request was answered."""
    tokens: int | None
    """None: not a chat."""
    tokens_per_second: float | None
    """The total of all requests."""
    first_token_ms: Times | None
    """None: no answer was a stream."""
    inter_token_ms: Times | None
    """The mean time between two tokens of each answer."""
    longest_gap_ms: Times | None
    """The longest time between two chunks of each answer."""
    request_tokens_per_second: Times | None


@dataclass(frozen=True, kw_only=True)
class Results:
    duration_s: float
    dropped: int
    """Requests that were not sent because too many were under way. Only with a rate."""
    whole: Figures
    targets: Mapping[str, Figures]
    """Name of the target -> its figures."""


def results(outcomes: Sequence[Outcome], load: Load, *, not_sent: int) -> Results:
    duration_s = _duration_s(outcomes)
    by_target: dict[int, list[Outcome]] = {index: [] for index in range(len(load.targets))}
    for outcome in outcomes:
        by_target[outcome.target].append(outcome)
    return Results(
        duration_s=duration_s,
        dropped=not_sent,
        whole=_figures(outcomes, load, duration_s),
        targets={
            target.name: _figures(by_target[index], load, duration_s)
            for index, target in enumerate(load.targets)
        },
    )


def times(values: Iterable[float]) -> Times | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return Times(
        mean=math.fsum(ordered) / len(ordered),
        p50=percentile(ordered, 50),
        p90=percentile(ordered, 90),
        p95=percentile(ordered, 95),
        p99=percentile(ordered, 99),
        most=ordered[-1],
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Interpolates linearly between the two nearest values."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _duration_s(outcomes: Sequence[Outcome]) -> float:
    if not outcomes:
        return 0.0
    return max(o.ended_s for o in outcomes) - min(o.began_s for o in outcomes)


def _figures(outcomes: Sequence[Outcome], load: Load, duration_s: float) -> Figures:
    answered = [outcome for outcome in outcomes if outcome.failure is None]
    chat = load.api == "chat"
    tokens = sum(outcome.tokens or 0 for outcome in answered) if chat else None
    return Figures(
        answered=len(answered),
        failed=len(outcomes) - len(answered),
        per_second=_rate(len(answered), duration_s),
        latency_ms=_milliseconds(o.ended_s - o.began_s for o in answered),
        tokens=tokens,
        tokens_per_second=None if tokens is None else _rate(tokens, duration_s),
        first_token_ms=_milliseconds(o.first_token_s for o in answered),
        inter_token_ms=_milliseconds(o.inter_token_s for o in answered),
        longest_gap_ms=_milliseconds(o.longest_gap_s for o in answered),
        request_tokens_per_second=(
            times(_rate(o.tokens or 0, o.ended_s - o.began_s) for o in answered) if chat else None
        ),
    )


def _milliseconds(seconds: Iterable[float | None]) -> Times | None:
    return times(value * 1000 for value in seconds if value is not None)


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
