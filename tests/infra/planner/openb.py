"""Pods of Alibaba's GPU trace that fit slices (data/openb), and the layouts of other planners."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from slicewright.infra import catalog, geometry, planner
from slicewright.infra.planner import DemandClass, Limits, Problem, Slot

DATA = Path(__file__).parent / "data/openb/pods_by_class.csv"
A100 = catalog.load().gpus["A100-80"]
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")

_HAMI = ({1: 7}, {2: 3, 1: 1}, {3: 2}, {7: 1})
_UNIFORM = ({1: 7}, {2: 3}, {3: 2}, {4: 1}, {7: 1})
# nos lacks 4g with 3g, and 3g with four 1g; it has two layouts in their place.
_NOS = (
    *({7: 1}, {4: 1, 2: 1, 1: 1}, {4: 1, 1: 3}, {3: 2}, {3: 1, 2: 1, 1: 1}, {3: 1, 1: 3}),
    *({2: 3, 1: 1}, {2: 2, 1: 3}, {2: 1, 1: 5}, {1: 7}),
)
LAYOUTS_OF_OTHERS: Final[Mapping[str, Sequence[Mapping[int, int]]]] = {
    "nos 0.1.2": _NOS,
    "HAMi up to 2.9": _HAMI,
    "one profile per GPU (GKE)": _UNIFORM,
}
"""Planner -> its layouts of a GPU, as compute slices of a profile -> instances."""


def problem(times: int = 1) -> Problem:
    """Returns the demand on A100-80, one GPU a node. A larger slice may serve a smaller class."""
    with DATA.open() as file:
        pods = {row["class"]: int(row["pods"]) for row in csv.DictReader(file)}
    by_class = {name: _at_least(int(name[0])) for name in pods}
    classes = tuple(
        DemandClass(name=name, required=count * times, yields=dict.fromkeys(by_class[name], 1))
        for name, count in pods.items()
    )
    node = planner.node_type("a100", A100, gpus=1, cost=1, partitioner="operator")
    return Problem(classes=classes, node_types=(node,), objective="gpus", limits=Limits(pools=None))


def with_layouts(problem: Problem, layouts: Sequence[Mapping[int, int]]) -> Problem:
    """Returns the problem on the same node type with these layouts only."""
    (node,) = problem.node_types
    named = tuple(_named(layout) for layout in layouts)
    return replace(problem, node_types=(replace(node, layouts=named),))


def _at_least(slices: int) -> list[Slot]:
    return [Slot(gpu=A100.name, profile=name) for name in PROFILES if int(name[0]) >= slices]


def _named(layout: Mapping[int, int]) -> geometry.Layout:
    by_slices = {int(name[0]): name for name in PROFILES}
    return {by_slices[slices]: count for slices, count in layout.items()}
