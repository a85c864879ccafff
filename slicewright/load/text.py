"""Formats results for people, and as JSON (docs/reference/load-json.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from rich.table import Table

from slicewright.load.load import Load
from slicewright.load.results import Figures, Results, Times

VERSION: Final = 2


def summary_lines(load: Load, results: Results) -> list[str]:
    whole = results.whole
    how = f"{load.users} users" if load.rate is None else f"{load.rate} requests a second"
    count = len(load.targets)
    lines = [
        f"{load.workload}: {how} for {load.duration_s} s at {count} address"
        f"{'es' if count != 1 else ''}, {results.duration_s:.1f} s until the last answer",
        f"  answered        {whole.answered}, {whole.per_second:.1f} a second"
        + (f"; {whole.failed} failed" if whole.failed else ""),
    ]
    if results.dropped:
        lines.append(
            f"  not sent        {results.dropped}: too many requests were in flight when they "
            "were due"
        )
    if whole.latency_ms is not None:
        lines.append(f"  whole answer    {_times(whole.latency_ms)}")
    if whole.first_token_ms is not None:
        lines.append(f"  first token     {_times(whole.first_token_ms)}")
    if whole.inter_token_ms is not None:
        lines.append(f"  between tokens  {_times(whole.inter_token_ms, digits=1)}")
    if whole.longest_gap_ms is not None:
        lines.append(f"  longest gap     {_times(whole.longest_gap_ms)}")
    if whole.tokens is not None:
        lines.append(f"  tokens          {whole.tokens}, {whole.tokens_per_second:.1f} a second")
    if whole.request_tokens_per_second is not None:
        each = whole.request_tokens_per_second
        lines.append(f"  per request     {each.mean:.1f} tokens a second, median {each.p50:.1f}")
    return lines


def table(load: Load, results: Results) -> Table:
    """A table with a row per replica, and its node and partition if they are known."""
    chat, placed = load.api == "chat", any(target.node for target in load.targets)
    figures = Table(box=None, pad_edge=False, header_style="bold")
    places = ["replica", *(["node", "partition"] if placed else [])]
    heads = ["answered", "failed", "per s", "p50 ms", "p95 ms", "p99 ms"]
    for head in places:
        figures.add_column(head)
    for head in [*heads, *(["tokens per s", "first p95 ms", "between p95 ms"] if chat else [])]:
        figures.add_column(head, justify="right")
    for target in load.targets:
        where = [target.node or "-", target.partition or "whole GPU"] if placed else []
        figures.add_row(target.name, *where, *_cells(results.targets[target.name], chat=chat))
    return figures


def as_json(load: Load, results: Results, *, interrupted: bool) -> dict[str, Any]:
    return {
        "version": VERSION,
        "workload": load.workload,
        "api": load.api,
        "model": load.model,
        "asked": {"duration_s": load.duration_s, "users": load.users, "rate": load.rate},
        "duration_s": results.duration_s,
        "interrupted": interrupted,
        "not_sent": results.dropped,
        "whole": dataclasses.asdict(results.whole),
        "replicas": [
            {
                "name": target.name,
                "url": target.url,
                "node": target.node,
                "partition": target.partition,
                **dataclasses.asdict(results.targets[target.name]),
            }
            for target in load.targets
        ],
    }


def _cells(figures: Figures, *, chat: bool) -> Sequence[str]:
    latency, first, between = figures.latency_ms, figures.first_token_ms, figures.inter_token_ms
    cells = [
        str(figures.answered),
        str(figures.failed),
        f"{figures.per_second:.1f}",
        *(["-"] * 3 if latency is None else [f"{v:.0f}" for v in _p(latency)]),
    ]
    if chat:
        cells += [
            "-" if figures.tokens_per_second is None else f"{figures.tokens_per_second:.1f}",
            "-" if first is None else f"{first.p95:.0f}",
            "-" if between is None else f"{between.p95:.1f}",
        ]
    return cells


def _p(times: Times) -> tuple[float, float, float]:
    return times.p50, times.p95, times.p99


def _times(times: Times, *, digits: int = 0) -> str:
    p50, p90, p95, p99, most = (
        f"{value:.{digits}f}" for value in (times.p50, times.p90, times.p95, times.p99, times.most)
    )
    return f"p50 {p50} ms, p90 {p90}, p95 {p95}, p99 {p99}, longest {most}"
