"""What came of a load, from k6's summary. Source: k6 docs, handleSummary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.load.asked import Load, tag


class BadSummary(Exception):
    """Not what k6 1.x writes; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Of requests, in milliseconds; or tokens a second of each."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    most: float


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of all targets, or of one."""

    answered: int
    failed: int
    per_second: float
    """Requests answered."""
    latency_ms: Times | None
    """None: none was answered."""
    tokens: int | None
    """None: not a chat."""
    tokens_per_second: float | None
    """Of all requests together."""
    first_token_ms: Times | None
    request_tokens_per_second: Times | None


@dataclass(frozen=True, kw_only=True)
class Results:
    duration_s: float
    dropped: int
    """Requests that were not sent, because too many were under way: only at a rate."""
    whole: Figures
    targets: Mapping[str, Figures]
    """By name."""


def results(summary: Mapping[str, Any], load: Load) -> Results:
    """Raises BadSummary."""
    try:
        metrics = summary["metrics"]
        # Not k6's own time: that has the last requests, which are awaited when no more are sent.
        duration_s = float(summary["state"]["testRunDurationMs"]) / 1000
        return Results(
            duration_s=duration_s,
            dropped=int(_values(metrics, "dropped_iterations").get("count", 0)),
            whole=_figures(metrics, "", load, duration_s),
            targets={
                one.name: _figures(metrics, f"{{target:{tag(i)}}}", load, duration_s)
                for i, one in enumerate(load.targets)
            },
        )
    except (KeyError, TypeError, ValueError) as e:
        raise BadSummary(f"k6's summary is not as expected: {e!r}") from None


def _figures(metrics: Mapping[str, Any], of: str, load: Load, duration_s: float) -> Figures:
    answered, failed = (
        int(_values(metrics, f"{name}{of}").get("count", 0)) for name in ("answered", "failed")
    )
    chat = load.api == "chat"
    tokens = int(_values(metrics, f"tokens{of}").get("count", 0)) if chat else None
    return Figures(
        answered=answered,
        failed=failed,
        per_second=answered / duration_s,
        latency_ms=_times(metrics, f"latency{of}"),
        tokens=tokens,
        tokens_per_second=tokens / duration_s if tokens is not None else None,
        first_token_ms=_times(metrics, f"first_token{of}") if chat else None,
        request_tokens_per_second=_times(metrics, f"request_tokens{of}") if chat else None,
    )


def _times(metrics: Mapping[str, Any], name: str) -> Times | None:
    values = _values(metrics, name)
    if not values.get("count"):
        return None
    return Times(
        mean=float(values["avg"]),
        p50=float(values["med"]),
        p90=float(values["p(90)"]),
        p95=float(values["p(95)"]),
        p99=float(values["p(99)"]),
        most=float(values["max"]),
    )


def _values(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """k6 leaves out what nothing was added to."""
    found: Mapping[str, Any] = (metrics.get(name) or {}).get("values") or {}
    return found
