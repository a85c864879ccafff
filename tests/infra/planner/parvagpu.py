"""ParvaGPU's scenarios: services with rates and latency objectives, on as few A100-80 as possible.

Data: MunQ-Lee/ParvaGPU_SC24 (MIT, data/parvagpu/LICENSE), the paper is arXiv 2409.14447. A
configuration is admissible if its latency is under 90 % of half the objective: half for queueing.
"""

from __future__ import annotations

import csv
import math
from fractions import Fraction
from functools import cache
from pathlib import Path

from slicewright.infra import catalog, planner
from slicewright.infra.planner import DemandClass, Limits, Problem, Slot

DATA = Path(__file__).parent / "data/parvagpu"
A100 = catalog.load().gpus["A100-80"]
PROFILES = {"1": "1g.10gb", "2": "2g.20gb", "3": "3g.40gb", "4": "4g.40gb", "7": "7g.80gb"}
MODELS = sorted(file.stem for file in DATA.glob("*.csv") if not file.stem.startswith("SLO"))
NODE = planner.node_type("a100", A100, gpus=1, cost=1, partitioner="operator")


@cache
def rows(name: str) -> list[list[str]]:
    with (DATA / f"{name}.csv").open() as file:
        return list(csv.reader(file))


@cache
def yields(model: str, objective_ms: str) -> dict[Slot, int]:
    """Profile -> the most thousandths of requests per second that one instance serves in time."""
    best: dict[Slot, int] = {}
    for size, _batch, processes, each, latency_s in rows(model)[1:]:
        latency_ms = Fraction(latency_s) * 1000
        # The rows with zeros are configurations that did not run.
        if latency_ms and latency_ms < Fraction(objective_ms) / 2 * Fraction(9, 10):
            slot = Slot(gpu=A100.name, profile=PROFILES[size])
            rate = math.floor(Fraction(each) * int(processes) * 1000)
            best[slot] = max(best.get(slot, 0), rate)
    return best


def problem(scenario: int, times: int) -> Problem:
    rates, objectives = rows("SLO_req_rate")[scenario], rows("SLO_latency")[scenario]
    classes = tuple(
        DemandClass(
            name=model,
            required=math.ceil(Fraction(rate) * 1000) * times,
            yields=yields(model, objective),
            unit="thousandths of requests per second",
        )
        for model, rate, objective in zip(MODELS, rates, objectives, strict=True)
        if rate != "N/A"
    )
    return Problem(classes=classes, node_types=(NODE,), objective="gpus", limits=Limits(pools=None))
