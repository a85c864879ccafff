"""The planner's fleets and time: `python benchmarks/planner.py`.

First the GPUs of two published demands beside those of other planners, then the processor time of
demands of growing size: 6 classes, 5 GPU models, 11 node types. Times are of the whole `optimise`,
with its check; prices and classes are drawn from seeds.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slicewright.infra import catalog, planner
from slicewright.infra.planner import DemandClass, Limits, NodeType, Problem, Slot
from tests.infra.planner import openb, parvagpu

PUBLISHED_PARVAGPU = (2, 3, 5, 7, 13, 16)
"""GPUs of the maps that the paper's repository has, S1 to S6."""
GOALS_S = {1000: 1.0, 10**6: 3.0}
SEEDS = 10
# GPU model -> the GPUs of its node types, and the price of one GPU in thousandths of USD per hour.
NODE_TYPES = {
    "A30": ((1, 2, 4), 1200),
    "A100-40": ((1, 8), 3670),
    "A100-80": ((1, 8), 5070),
    "H100-80": ((1, 8), 11060),
    "H200": ((4, 8), 10600),
}


def main() -> None:
    for line in (*_openb(), "", *_parvagpu(), "", *_growth()):
        print(line, flush=True)


def _openb() -> Iterator[str]:
    yield "1,672 pods of Alibaba's trace openb that fit slices, on A100-80 with 1 GPU a node:"
    problem = openb.problem()
    best = planner.optimise(problem)
    yield f"  {'slicewright':52} {best.gpus:5} GPUs, lower bound {best.bounds.proven}"
    for name, layouts in openb.LAYOUTS_OF_OTHERS.items():
        other = planner.optimise(openb.with_layouts(problem, layouts)).gpus
        row = f"  {f'layouts of {name}, filled best':52} {other:5} GPUs"
        yield f"{row}, {other / best.gpus - 1:+.1%}"


def _parvagpu() -> Iterator[str]:
    yield "ParvaGPU (SC'24), rates and latency objectives of S1 to S6, on A100-80:"
    gpus = [planner.optimise(parvagpu.problem(number, 1)).gpus for number in range(6)]
    for name, counts in (("slicewright", gpus), ("published maps", PUBLISHED_PARVAGPU)):
        yield f"  {name:52} {sum(counts):5} GPUs: {' '.join(map(str, counts))}"


def _growth() -> Iterator[str]:
    yield f"{_size(_drawn(1000, 0))}; seconds of processor time over {SEEDS} seeds:"
    for pools in (None, 4):
        for replicas in (10, 1000, 10**5, 10**6):
            timed = (_timed(_drawn(replicas, seed, pools)) for seed in range(SEEDS))
            took, proven = zip(*timed, strict=True)
            limit = "any number of" if pools is None else f"at most {pools}"
            row = f"  {replicas:9,} replicas, {limit} pools"
            figures = f"median {statistics.median(took):5.2f}, most {max(took):5.2f}"
            yield f"{row:45} {figures}, proven {sum(proven)} of {SEEDS}{_goal(replicas, took)}"


def _goal(replicas: int, took: tuple[float, ...]) -> str:
    if (goal := GOALS_S.get(replicas)) is None:
        return ""
    met = "met" if max(took) <= goal else "NOT met"
    return f"; goal: most <= {goal:g}: {met}"


def _timed(problem: Problem) -> tuple[float, bool]:
    began = time.process_time()
    answer = planner.optimise(problem)
    return time.process_time() - began, answer.bounds.gap == 0


def _size(problem: Problem) -> str:
    gpus = {node.gpu.name for node in problem.node_types}
    return (
        f"{len(problem.classes)} classes, {len(gpus)} GPU models, "
        f"{len(problem.node_types)} node types"
    )


def _drawn(replicas: int, seed: int, pools: int | None = None) -> Problem:
    chosen = random.Random(seed)  # noqa: S311 (test data, not secrets)
    nodes = tuple(_node_types(chosen))
    gpus = {node.gpu.name: node.gpu for node in nodes}.values()
    shares = [chosen.random() for _ in range(6)]
    classes = tuple(
        DemandClass(
            name=f"class-{number}",
            required=max(1, round(replicas * share / sum(shares))),
            yields=dict.fromkeys(_slots([*gpus], chosen.choice((4, 9, 18, 22, 38, 70)) * 1024), 1),
        )
        for number, share in enumerate(shares)
    )
    return Problem(classes=classes, node_types=nodes, limits=Limits(pools=pools))


def _node_types(chosen: random.Random) -> Iterator[NodeType]:
    for gpu, (sizes, price) in NODE_TYPES.items():
        for size in sizes:
            cost = round(size * price * chosen.uniform(0.8, 1.2))
            yield planner.node_type(
                f"{gpu}-{size}",
                catalog.load().gpus[gpu],
                gpus=size,
                cost=cost,
                partitioner="operator",
            )


def _slots(gpus: list[catalog.Gpu], memory_mib: int) -> Iterator[Slot]:
    for gpu in gpus:
        for profile in gpu.profiles.values():
            if "+" not in profile.name and memory_mib <= (profile.memory_mib or 0):
                yield Slot(gpu=gpu.name, profile=profile.name)


if __name__ == "__main__":
    main()
