"""Solves a problem: the least objective first, then fewer changes and fewer pools at no more.

Least fleets are rarely unique, and which of them a solver returns depends on the order of its
columns. The program's columns and rows are sorted by name, so equal problems have equal answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from slicewright.infra.planner import highs
from slicewright.infra.planner.alike import Members, divided, merged
from slicewright.infra.planner.answer import Answer, Assignment, Bounds, Pool
from slicewright.infra.planner.checking import violations
from slicewright.infra.planner.demand import Problem
from slicewright.infra.planner.highs import SolverFailed
from slicewright.infra.planner.program import NodesColumn, Program, Row

_SECOND_SEARCH_NODES: Final = 200
_BOUND_ERROR: Final = Fraction(1, 10**6)
"""The solver's tolerance of feasibility."""
_RELATIVE_BOUND_ERROR: Final = Fraction(1, 10**12)
"""Many times the precision of its numbers. A share that exceeds the objective's grid would leave a
gap beside every optimum: a fleet of USD 10 million per hour is 10**10 thousandths.
"""


class Infeasible(Exception):
    """No fleet serves the demand within the limits."""


class NotSolved(Exception):
    """The search ended without any fleet. The message says what to change."""


def optimise(
    problem: Problem,
    *,
    current: tuple[Pool, ...] = (),
    search_nodes: int = 200_000,
    break_ties: bool = True,
) -> Answer:
    """Returns the least fleet with its bounds.

    current: today's pools, each with another node type or layout. Of all least fleets, the answer
    keeps the most of their nodes. break_ties: False returns the first least fleet that is found.

    Raises Infeasible, NotSolved, and the solver's NoSolver and SolverFailed.
    """
    solved, members = merged(problem)
    program = Program(solved, current)
    rows, upper = program.rows(), program.upper()
    weights = program.weights(problem.objective)
    if not program.nodes:
        return _empty(problem)
    first = highs.solve(weights, rows, upper, search_nodes=search_nodes)
    if first.bound is None:
        raise Infeasible
    if first.values is None:
        raise NotSolved(
            f"the search found no fleet in {search_nodes} steps: allow fewer machine types, more "
            "pools, or merge classes"
        )
    relaxed = highs.solve(weights, rows, upper, integers=False)
    assert relaxed.bound is not None  # the integer program has a solution
    values = first.values
    if break_ties and current:
        values = _with_fewest_changes(program, rows, values, weights)
    elif break_ties and program.has_switches:
        values = _with_fewest_pools(program, rows, values, weights)
    # A first search that was cut short may have missed a better fleet that the second one found.
    objective = _total(weights, values)
    bounds = Bounds(
        objective=objective,
        relaxed=relaxed.bound.limit_denominator(10**6),
        proven=_on_grid(first.bound, weights, objective),
        solver=highs.version(),
    )
    answer = _answer(program, values, bounds, members)
    if wrong := violations(problem, answer):
        raise SolverFailed(f"the answer of {bounds.solver} is wrong: {'; '.join(wrong)}")
    return answer


def _empty(problem: Problem) -> Answer:
    """Returns the fleet without nodes. Raises Infeasible if it does not serve the demand."""
    if any(demand.required for demand in problem.classes):
        raise Infeasible
    bounds = Bounds(objective=0, relaxed=Fraction(0), proven=0, solver=highs.version())
    return Answer(pools=(), assignments=(), bounds=bounds)


def _total(weights: Sequence[int], values: Sequence[int]) -> int:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _on_grid(bound: Fraction, weights: Sequence[int], objective: int) -> int:
    """Rounds a lower bound up to the next possible objective: a multiple of the weights' divisor.

    The solver's bound is a floating-point number, which may exceed the true one by a little.
    """
    step = math.gcd(*weights) or 1
    slack = _BOUND_ERROR + _RELATIVE_BOUND_ERROR * abs(bound)
    return min(objective, math.ceil((bound - slack) / step) * step)


def _with_fewest_pools(
    program: Program, rows: tuple[Row, ...], values: tuple[int, ...], weights: Sequence[int]
) -> tuple[int, ...]:
    """Returns an answer with the same objective and as few pools as possible, as far as short
    searches find it. Each allows one pool less.

    To minimise the number of pools with the objective as a limit takes several times as long: the
    linear relaxation of that number is far below it.
    """
    while True:
        objective = _total(weights, values)
        pools = sum(1 for value in values[: len(program.nodes)] if value)
        switches = dict.fromkeys(map(program.switch, range(len(program.nodes))), 1)
        fewer = Row(name="fewer pools", low=None, high=pools - 1, coefficients=switches)
        best = highs.solve(
            weights,
            (*rows, _objective_limit(weights, objective), fewer),
            program.upper(),
            search_nodes=_SECOND_SEARCH_NODES,
            cutoff=objective,
        )
        if best.values is None or _total(weights, best.values) > objective:
            return values
        values = best.values


def _objective_limit(weights: Sequence[int], objective: int) -> Row:
    coefficients = {index: weight for index, weight in enumerate(weights) if weight}
    return Row(name="objective", low=None, high=objective, coefficients=coefficients)


def _with_fewest_changes(
    program: Program, rows: tuple[Row, ...], values: tuple[int, ...], weights: Sequence[int]
) -> tuple[int, ...]:
    """Returns an answer with the same objective that a short search finds: of today's nodes as few
    as possible change, and then there are as few pools as possible.
    """
    limit = _objective_limit(weights, _total(weights, values))
    standing = _standing(program)
    changes = tuple(
        Row(
            name=f"changes of {program.nodes[index].name}",
            low=nodes,
            high=None,
            coefficients={index: 1, program.width + number: 1},
        )
        for number, (index, nodes) in enumerate(standing)
    )
    before = len(program.nodes) + len(program.replicas)
    switches = (1,) * (program.width - before)
    secondary = (*(0,) * before, *switches, *(len(switches) + 1,) * len(standing))
    upper = (*program.upper(), *(nodes for _, nodes in standing))
    best = highs.solve(
        secondary, (*rows, limit, *changes), upper, search_nodes=_SECOND_SEARCH_NODES
    )
    return values if best.values is None else best.values[: program.width]


def _standing(program: Program) -> list[tuple[int, int]]:
    """Returns today's nodes by the column of their pool."""
    columns = {column.name: index for index, column in enumerate(program.nodes)}
    named = (
        (NodesColumn(node_type=pool.node_type, layout=pool.layout, most=0).name, pool.nodes)
        for pool in program.current
    )
    return [(columns[name], nodes) for name, nodes in named if name in columns]


def _answer(program: Program, values: Sequence[int], bounds: Bounds, members: Members) -> Answer:
    pools = tuple(
        Pool(node_type=column.node_type, layout=column.layout, nodes=values[index])
        for index, column in enumerate(program.nodes)
        if values[index]
    )
    first = len(program.nodes)
    assignments = (
        Assignment(
            demand_class=column.demand_class.name,
            node_type=column.node_type.name,
            slot=column.slot,
            replicas=values[first + index],
        )
        for index, column in enumerate(program.replicas)
        if values[first + index]
    )
    return Answer(pools=pools, assignments=divided(assignments, members), bounds=bounds)
