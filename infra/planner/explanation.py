"""Answers to why: the limit that makes a problem infeasible, the price of one more unit, and the
fleets that simpler rules would need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from slicewright.infra.planner.answer import Answer
from slicewright.infra.planner.candidates import NodeType, uniform
from slicewright.infra.planner.demand import DemandClass, Limits, Problem
from slicewright.infra.planner.solving import Infeasible, NotSolved, optimise


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """A limit without which the demand could be served."""

    limit: str
    """The limit, such as `max_pools: 1`."""
    classes: tuple[str, ...]
    """The classes that cannot be served within the limits even alone. Empty: only together."""


def obstacles(problem: Problem) -> tuple[Obstacle, ...]:
    """Returns the limits of an infeasible problem that alone make it infeasible. Empty: several
    limits do so together, or a class has no device.
    """
    hopeless = tuple(
        demand.name
        for demand in sorted(problem.classes, key=lambda demand: demand.name)
        if _solved(replace(problem, classes=(demand,))) is None
    )
    return tuple(
        Obstacle(limit=name, classes=hopeless)
        for name, limits in _without_each(problem.limits)
        if _solved(replace(problem, limits=limits)) is not None
    )


def _without_each(limits: Limits) -> Iterator[tuple[str, Limits]]:
    if limits.pools is not None:
        yield f"max_pools: {limits.pools}", replace(limits, pools=None)
    if limits.nodes is not None:
        yield f"max_nodes: {limits.nodes}", replace(limits, nodes=None)
    for gpu, most in sorted(limits.gpus.items()):
        remaining = {name: number for name, number in limits.gpus.items() if name != gpu}
        yield f"max_gpus.{gpu}: {most}", replace(limits, gpus=remaining)
    if limits.spare_nodes:
        yield f"spare_nodes: {limits.spare_nodes}", replace(limits, spare_nodes=0)


def margins(problem: Problem, answer: Answer) -> Mapping[str, int | None]:
    """Returns what one more unit of each class would add to the objective. None: the limits do not
    allow it.

    A unit is a replica, or one request per second.
    """
    return {
        demand.name: _margin(problem, answer, demand)
        for demand in sorted(problem.classes, key=lambda demand: demand.name)
    }


def _margin(problem: Problem, answer: Answer, demand: DemandClass) -> int | None:
    unit = 1 if demand.unit == "replicas" else 1000
    more = replace(demand, required=demand.required + unit)
    unchanged = (other for other in problem.classes if other is not demand)
    changed = _solved(replace(problem, classes=(*unchanged, more)))
    if changed is None:
        return None
    return max(changed.bounds.objective - answer.bounds.objective, 0)


def comparison(problem: Problem) -> Mapping[str, Answer | None]:
    """Returns the least fleets by simpler rules. None: such a fleet cannot serve the demand.

    `whole GPUs`: a GPU for each replica. `uniform layouts`: one profile per GPU.
    `without the limit of pools`: as many pools as are useful.
    """
    rules = {
        "whole GPUs": replace(problem, node_types=tuple(map(_only_whole, problem.node_types))),
        "uniform layouts": replace(
            problem, node_types=tuple(map(_only_uniform, problem.node_types))
        ),
        "without the limit of pools": replace(problem, limits=replace(problem.limits, pools=None)),
    }
    return {rule: _solved(restricted) for rule, restricted in rules.items()}


def _only_whole(node: NodeType) -> NodeType:
    return replace(node, layouts=({},))


def _only_uniform(node: NodeType) -> NodeType:
    if node.gpu.family is None:
        return node
    return replace(node, layouts=(*uniform(node.gpu), {}))


def _solved(problem: Problem) -> Answer | None:
    try:
        return optimise(problem)
    except (Infeasible, NotSolved):
        return None
