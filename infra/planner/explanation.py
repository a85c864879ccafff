"""Answers to why: the limit that makes a problem infeasible, the price of one more unit, and the
fleets that simpler rules would need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from slicewright.infra.planner.answer import Answer
from slicewright.infra.planner.candidates import NodeType, uniform
from slicewright.infra.planner.demand import DemandClass, Limits, Problem
from slicewright.infra.planner.solving import Infeasible, NotSolved, optimise

_SEARCH_NODES: Final = 100
"""Each question is a search of its own. A margin or a comparison need not be proven to inform."""
Verdict = Literal["proven", "at most", "exceeds the limits", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A short search for the least fleet of a changed problem."""

    answer: Answer | None
    verdict: Verdict
    """`at most`: a better fleet may exist. `unknown`: the search ended without any."""


@dataclass(frozen=True, kw_only=True)
class Margin:
    """What one more unit of a class would add to the objective."""

    added: int | None
    verdict: Verdict


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
        if _exceeds_limits(replace(problem, classes=(demand,)))
    )
    return tuple(
        Obstacle(limit=name, classes=hopeless)
        for name, without in _without_each(problem)
        if _attempt(without).answer is not None
    )


def _without_each(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """Yields each limit, and the problem without it."""
    for name, limits in _other_limits(problem.limits):
        yield name, replace(problem, limits=limits)
    for node in sorted(problem.node_types, key=lambda node: node.name):
        if node.most is not None:
            unlimited = (
                replace(other, most=None) if other is node else other
                for other in problem.node_types
            )
            yield (
                f"max_machines.{node.name}: {node.most}",
                replace(problem, node_types=tuple(unlimited)),
            )


def _other_limits(limits: Limits) -> Iterator[tuple[str, Limits]]:
    if limits.pools is not None:
        yield f"max_pools: {limits.pools}", replace(limits, pools=None)
    if limits.nodes is not None:
        yield f"max_nodes: {limits.nodes}", replace(limits, nodes=None)
    for gpu, most in sorted(limits.gpus.items()):
        remaining = {name: number for name, number in limits.gpus.items() if name != gpu}
        yield f"max_gpus.{gpu}: {most}", replace(limits, gpus=remaining)
    if limits.spare_nodes:
        yield f"spare_nodes: {limits.spare_nodes}", replace(limits, spare_nodes=0)


def margins(problem: Problem, answer: Answer) -> Mapping[str, Margin]:
    """Returns the margin of each class. A unit is a replica, or one request per second."""
    return {
        demand.name: _margin(problem, answer, demand)
        for demand in sorted(problem.classes, key=lambda demand: demand.name)
    }


def _margin(problem: Problem, answer: Answer, demand: DemandClass) -> Margin:
    unit = 1 if demand.unit == "replicas" else 1000
    more = replace(demand, required=demand.required + unit)
    unchanged = (other for other in problem.classes if other is not demand)
    attempt = _attempt(replace(problem, classes=(*unchanged, more)))
    if attempt.answer is None:
        return Margin(added=None, verdict=attempt.verdict)
    added = max(attempt.answer.bounds.objective - answer.bounds.objective, 0)
    # The difference is exact only between two optima.
    verdict: Verdict = "unknown" if answer.bounds.gap else attempt.verdict
    return Margin(added=added, verdict=verdict)


def comparison(problem: Problem, time_sliced: Problem) -> Mapping[str, Attempt]:
    """Returns the least fleets by simpler rules, and without each limit.

    `whole GPUs`: a GPU for each replica. `time-slicing`: the problem `time_sliced`.
    `uniform layouts`: one profile per GPU. A limit binds if the fleet without it is better.
    """
    rules = {
        "whole GPUs": replace(problem, node_types=tuple(map(_only_whole, problem.node_types))),
        "time-slicing": time_sliced,
        "uniform layouts": replace(
            problem, node_types=tuple(map(_only_uniform, problem.node_types))
        ),
        **{f"without {name}": without for name, without in _without_each(problem)},
    }
    return {rule: _attempt(restricted) for rule, restricted in rules.items()}


def _only_whole(node: NodeType) -> NodeType:
    return replace(node, layouts=({},))


def _only_uniform(node: NodeType) -> NodeType:
    if node.gpu.family is None:
        return node
    return replace(node, layouts=(*uniform(node.gpu), {}))


def _exceeds_limits(problem: Problem) -> bool:
    return _attempt(problem).verdict == "exceeds the limits"


def _attempt(problem: Problem) -> Attempt:
    try:
        answer = optimise(problem, search_nodes=_SEARCH_NODES, break_ties=False)
    except Infeasible:
        return Attempt(answer=None, verdict="exceeds the limits")
    except NotSolved:
        return Attempt(answer=None, verdict="unknown")
    return Attempt(answer=answer, verdict="at most" if answer.bounds.gap else "proven")
