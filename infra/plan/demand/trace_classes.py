"""Demand classes of a trace: for each device, the replicas that exist at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slicewright.infra.plan.demand.concurrency import concurrent, span_of
from slicewright.infra.plan.demand.trace_rows import (
    MOST_REPLICAS,
    BadTrace,
    Device,
    TraceRow,
    read_rows,
)

_Kind = tuple[str, Device]
"""The rows of one class have the same name and device."""


def classes_of_trace(text: str, name: str, *, percentile: int = 100) -> list[dict[str, Any]]:
    """Returns `demand.classes` of a trace, sorted by name. Each class has the replicas that are
    enough for this percentile of the trace's time; without times, all of them.

    name: of the file, for messages. Raises BadTrace.
    """
    alike: dict[_Kind, list[TraceRow]] = {}
    for row in read_rows(text, name):
        if row.device is not None and row.replicas:
            alike.setdefault((row.name, row.device), []).append(row)
    if not alike:
        raise BadTrace(f"{name}: no row requests a GPU")
    required = _required(alike, name, percentile)
    labels = _labels(alike)
    for kind, replicas in required.items():
        if replicas > MOST_REPLICAS:
            raise BadTrace(
                f"{name}: {labels[kind]} has {replicas:,} replicas; at most {MOST_REPLICAS:,} can "
                "be planned"
            )
    classes: list[dict[str, Any]] = [
        {"name": labels[kind], "replicas": replicas, **_keys(kind[1])}
        for kind, replicas in required.items()
        if replicas
    ]
    if not classes:
        raise BadTrace(f"{name}: at percentile {percentile} of its time no replica exists")
    return sorted(classes, key=lambda demand: str(demand["name"]))


def _required(alike: dict[_Kind, list[TraceRow]], name: str, percentile: int) -> dict[_Kind, int]:
    """Returns the number of replicas of each class."""
    intervals = {
        kind: [row.interval for row in rows if row.interval is not None]
        for kind, rows in alike.items()
    }
    every = [interval for within in intervals.values() for interval in within]
    if every:
        span = span_of(every)
        return {kind: concurrent(within, span, percentile) for kind, within in intervals.items()}
    if percentile < 100:
        raise BadTrace(f"{name}: has no times, so no percentile of its time")
    return {kind: sum(row.replicas for row in rows) for kind, rows in alike.items()}


def _keys(device: Device) -> dict[str, Any]:
    """Returns the device as keys of a class."""
    keys: dict[str, Any] = {}
    if device.memory_mib:
        keys["memory"] = f"{device.memory_mib}Mi"
    if device.compute_slices:
        keys["compute_slices"] = device.compute_slices
    if device.gpus:
        keys["gpus"] = device.gpus
    return keys


def _labels(kinds: Iterable[_Kind]) -> dict[_Kind, str]:
    """Returns a DNS label for each class: its name, with the device if there are several."""
    by_name: dict[str, list[_Kind]] = {}
    for kind in kinds:
        by_name.setdefault(kind[0], []).append(kind)
    return {
        kind: name if name and len(alike) == 1 else f"{name or 'trace'}-{_device_label(kind[1])}"
        for name, alike in by_name.items()
        for kind in alike
    }


def _device_label(device: Device) -> str:
    parts = []
    if device.compute_slices:
        parts.append(f"{device.compute_slices}g")
    if device.gpus:
        parts.append(f"{device.gpus}-gpu" + ("s" if device.gpus > 1 else ""))
    if device.memory_mib:
        parts.append(f"{device.memory_mib}mib")
    return "-".join(parts)
