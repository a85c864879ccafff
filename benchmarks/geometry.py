"""How long the geometry takes to answer, by question, on every GPU: `python benchmarks/geometry.py`, or `measure()`.

Each question differs from the one before. "first" was never asked in this process, so that what comes nearest is worked out
from the tables; "again" is what a fleet of alike pools sees. Tables are made beforehand and timed apart. Medians, and the worst.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infra import catalog, geometry
from infra.catalog import Gpu
from infra.geometry.table import Table

QUESTIONS = 400
SEED = 20261121
Question = TypeVar("Question")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Microseconds per question."""

    gpu: str
    question: str
    median_us: float
    worst_us: float


def measure() -> Iterator[Timing]:
    """One row per GPU and kind of question. Takes about 3 s."""
    for gpu in catalog.load().gpus.values():
        if gpu.family is not None:
            yield from _measure(gpu)


def _measure(gpu: Gpu) -> Iterator[Timing]:
    chosen = random.Random(f"{SEED} {gpu.name}")  # noqa: S311 (questions, not secrets)
    began = time.perf_counter()
    table = Table(gpu)
    assert table.witnesses
    tables_us = (time.perf_counter() - began) * 1e6
    yield Timing(gpu=gpu.name, question="make the tables", median_us=tables_us, worst_us=tables_us)

    layouts = list(geometry.layouts(gpu))
    geometry.check(gpu, layouts[0])
    geometry.check(gpu, dict.fromkeys(gpu.profiles, 8))
    fitting = [chosen.choice(layouts) for _ in range(QUESTIONS)]
    yield _timed(gpu, "fits, and where", fitting, lambda layout: geometry.check(gpu, layout))

    names = list(gpu.profiles)
    asked = ({n: chosen.randint(1, 4) for n in chosen.sample(names, chosen.randint(1, 3))} for _ in iter(int, 1))
    unlike: dict[tuple[tuple[str, int], ...], geometry.Layout] = {}
    for layout in asked:
        if len(unlike) == QUESTIONS:
            break
        if tuple(sorted(layout.items())) not in unlike and not _fits(table, layout):
            unlike[tuple(sorted(layout.items()))] = layout
        elif len(unlike) > 100 and chosen.random() < 0.0005:
            break  # a GPU with few profiles has not so many
    yield _timed(gpu, "why not, and what is nearest: first", list(unlike.values()), lambda layout: geometry.check(gpu, layout))
    yield _timed(gpu, "why not, and what is nearest: again", list(unlike.values()), lambda layout: geometry.check(gpu, layout))

    sets = list(table.sets)
    states = [table.placed(chosen.choice(sets)) for _ in range(QUESTIONS)]
    targets = [chosen.choice(layouts) for _ in range(QUESTIONS)]
    yield _timed(gpu, "what can be kept", list(zip(states, targets, strict=True)), lambda c: geometry.change(gpu, c[0], c[1]))
    geometry.room(gpu, ())
    yield _timed(gpu, "what still fits: first", list(dict.fromkeys(states)), lambda state: geometry.room(gpu, state))
    yield _timed(gpu, "what still fits: again", states, lambda state: geometry.room(gpu, state))


def _fits(table: Table, layout: geometry.Layout) -> bool:
    packed = table.pack(layout)
    return packed is not None and packed in table.realisations


def _timed(gpu: Gpu, question: str, asked: Sequence[Question], answer: Callable[[Question], object]) -> Timing:
    took = []
    for one in asked:
        began = time.perf_counter_ns()
        answer(one)
        took.append(time.perf_counter_ns() - began)
    return Timing(gpu=gpu.name, question=question, median_us=statistics.median(took) / 1e3, worst_us=max(took) / 1e3)


if __name__ == "__main__":
    for row in measure():
        print(f"{row.gpu:14} {row.question:38} {row.median_us:10.1f} µs, worst {row.worst_us:10.1f} µs")
