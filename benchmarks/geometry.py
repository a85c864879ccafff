"""Processor time of geometry calls, by kind: `python benchmarks/geometry.py`, or `measure()`.

Calls differ, over all GPUs of a family. Building the tables is timed separately; answers are not
cached. Each call runs three times and the least thread time counts, which excludes other programs.
The goal applies to the median and the 99th percentile.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slicewright.infra import catalog, geometry
from slicewright.infra.catalog import Family, Gpu
from slicewright.infra.geometry import Placement

GOAL_US = 50.0
QUESTIONS = 2000
SEED = 20261121
Answer = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Microseconds of processor time per question."""

    family: str
    question: str
    asked: int
    median_us: float
    p99_us: float

    @property
    def met(self) -> bool:
        return self.median_us < GOAL_US and self.p99_us < GOAL_US


def measure() -> Iterator[Timing]:
    """One row per family and kind of call, first that of building its tables. Takes about 2 s."""
    gpus: dict[Family, list[Gpu]] = {}
    for gpu in catalog.load().gpus.values():
        if gpu.family is not None:
            gpus.setdefault(gpu.family, []).append(gpu)
    for family, members in gpus.items():
        chosen = random.Random(f"{SEED} {family.name}")  # noqa: S311 (test data, not secrets)
        yield _timed(family, "make the tables", [partial(_make, members)], times=1)
        questions: dict[str, list[Answer]] = {}
        for n in range(QUESTIONS):
            for question, answer in _questions(members[n % len(members)], chosen):
                questions.setdefault(question, []).append(answer)
        for question, answers in questions.items():
            yield _timed(family, question, answers)


def _make(gpus: Sequence[Gpu]) -> None:
    """Builds all tables, as the first calls for each GPU do."""
    for gpu in gpus:
        geometry.check(gpu, {"": 1})
        geometry.nearest(gpu, {})
        geometry.headroom(gpu, ())


def _questions(gpu: Gpu, chosen: random.Random) -> Iterator[tuple[str, Answer]]:
    layouts, names = geometry.layouts(gpu), list(gpu.profiles)
    some = {name: chosen.randint(1, 4) for name in chosen.sample(names, chosen.randint(1, 3))}
    while isinstance(geometry.check(gpu, some), geometry.Fit):
        some[chosen.choice(names)] = chosen.randint(1, 8)
    fitting = chosen.choice(layouts)
    there = _in_use(gpu, chosen)
    stranger = f"{chosen.choice((1, 2, 3, 4, 5, 7))}g.{chosen.randint(4, 200)}gb"
    target = chosen.choice(layouts)
    one = {chosen.choice(names): 1}
    yield "fits, and where", lambda: geometry.check(gpu, fitting)
    yield "why not, and what is nearest", lambda: geometry.check(gpu, some)
    yield "another GPU's profile, and what is nearest", lambda: geometry.check(gpu, {stranger: 2})
    yield "what can be kept", lambda: geometry.change(gpu, there, target)
    yield "fits beside what is in use", lambda: geometry.check_beside(gpu, there, one)
    yield "what still fits", lambda: geometry.headroom(gpu, there)


def _in_use(gpu: Gpu, chosen: random.Random) -> tuple[Placement, ...]:
    """Instances at random valid placements, as after some were created and destroyed."""
    there: tuple[Placement, ...] = ()
    for _ in range(chosen.randint(0, 12)):
        profile = chosen.choice(list(gpu.profiles.values()))
        more = Placement(
            profile=profile.name, start=chosen.choice(profile.kind.starts), size=profile.kind.size
        )
        try:
            geometry.headroom(gpu, (*there, more))
        except geometry.LayoutError:
            continue
        there = (*there, more)
    return there


def _timed(family: Family, question: str, answers: Iterable[Answer], times: int = 3) -> Timing:
    gc.collect()
    # The prepared calls are many objects, which would slow down the collector.
    gc.freeze()
    ordered = sorted(min(_took_us(answer) for _ in range(times)) for answer in answers)
    return Timing(
        family=family.name,
        question=question,
        asked=len(ordered),
        median_us=statistics.median(ordered),
        p99_us=ordered[len(ordered) * 99 // 100],
    )


def _took_us(answer: Answer) -> float:
    began = time.thread_time_ns()
    answer()
    return (time.thread_time_ns() - began) / 1e3


def main() -> None:
    print(f"microseconds of processor time; goal: under {GOAL_US:.0f} a question, median and p99")
    rows = list(measure())
    for row in rows:
        measured = f"{row.family:13} {row.question:43} {row.median_us:9.1f} {row.p99_us:9.1f}"
        print(
            f"{measured}  once, no goal"
            if row.asked == 1
            else f"{measured}  {'met' if row.met else 'NOT met'}"
        )
    asked = [row for row in rows if row.asked > 1]
    print(f"goal met in {sum(row.met for row in asked)} of {len(asked)} rows")


if __name__ == "__main__":
    main()
