"""Runs HiGHS, an optional dependency, on one integer program.

Its defaults would accept a gap of 1e-4, run on any number of threads, and stop at a time that
depends on the machine. Here the gap is 0, there is one thread and a fixed seed, and a search stops
after a number of nodes of its tree: the same program gives the same values everywhere.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from slicewright.infra.planner.program import Row

_OPTIONS: Final[Mapping[str, Any]] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
}
_WHOLE_NUMBER: Final = 1e-6
"""How far the solver's numbers may be from integers. They are checked exactly afterwards."""


class NoSolver(Exception):
    """highspy is not installed. The message says how to install it."""


class SolverFailed(Exception):
    """HiGHS gave no verdict. The message has its status."""


@dataclass(frozen=True, kw_only=True)
class Solution:
    values: tuple[int, ...] | None
    """The integer values of the columns. None: there are none."""
    bound: Fraction | None
    """No solution is below it. None: the program is infeasible."""
    optimal: bool


def version() -> str:
    """Returns the solver's name and version. Raises NoSolver."""
    return f"HiGHS {_new(_module()).version()}"


def _module() -> Any:
    if importlib.util.find_spec("highspy") is None:
        raise NoSolver(
            "highspy is not installed. It solves the integer program: install it with "
            "`pip install 'slicewright[planner]'`"
        )
    return importlib.import_module("highspy")


def solve(
    weights: Sequence[int],
    rows: Sequence[Row],
    upper: Sequence[int | None],
    *,
    integers: bool = True,
    search_nodes: int = 200_000,
    cutoff: int | None = None,
) -> Solution:
    """Minimises the weighted sum of the columns, which are at least 0.

    integers: False relaxes them to real numbers. search_nodes: the search stops after that many
    nodes of its tree. cutoff: leaves out most solutions whose sum is above it, and so saves time.
    Raises NoSolver and SolverFailed.
    """
    module = _module()
    highs = _new(module)
    options = {**_OPTIONS, "mip_max_nodes": search_nodes}
    if cutoff is not None:
        # Sums are integers: half of one is above the solver's error, and below the next sum.
        options["objective_bound"] = cutoff + 0.5
    for option, setting in options.items():
        _check(module, highs.setOptionValue(option, setting), f"option {option}")
    _check(module, highs.passModel(_model(module, weights, rows, upper, integers)), "model")
    highs.run()
    return _solution(module, highs, integers)


def _new(module: Any) -> Any:
    """Returns a solver. The first of a process would print a banner, before any option is set."""
    sys.stdout.flush()
    output = os.dup(1)
    try:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        highs = module.Highs()
        # The banner may still be in a buffer of the C library, whose streams Python does not know.
        ctypes.CDLL(None).fflush(None)
        return highs
    finally:
        os.dup2(output, 1)
        os.close(output)


def _check(module: Any, status: Any, part: str) -> None:
    if status != module.HighsStatus.kOk:
        raise SolverFailed(f"HiGHS refuses the {part}: {status}")


def _model(
    module: Any,
    weights: Sequence[int],
    rows: Sequence[Row],
    upper: Sequence[int | None],
    integers: bool,
) -> Any:
    infinity = module.kHighsInf
    model = module.HighsLp()
    model.num_col_, model.num_row_ = len(weights), len(rows)
    model.col_cost_ = [float(weight) for weight in weights]
    model.col_lower_ = [0.0] * len(weights)
    model.col_upper_ = [infinity if limit is None else float(limit) for limit in upper]
    model.row_lower_ = [-infinity if row.low is None else float(row.low) for row in rows]
    model.row_upper_ = [infinity if row.high is None else float(row.high) for row in rows]
    starts, indices, coefficients = [0], [], []
    for row in rows:
        for index, coefficient in sorted(row.coefficients.items()):
            indices.append(index)
            coefficients.append(float(coefficient))
        starts.append(len(indices))
    matrix = model.a_matrix_
    matrix.format_ = module.MatrixFormat.kRowwise
    matrix.start_, matrix.index_, matrix.value_ = starts, indices, coefficients
    if integers:
        model.integrality_ = [module.HighsVarType.kInteger] * len(weights)
    return model


def _solution(module: Any, highs: Any, integers: bool) -> Solution:
    status, info = highs.getModelStatus(), highs.getInfo()
    infeasible = (
        module.HighsModelStatus.kInfeasible,
        module.HighsModelStatus.kUnboundedOrInfeasible,
        module.HighsModelStatus.kObjectiveBound,
    )
    if status in infeasible:
        # Every column is at least 0 and every weight positive or 0: no program is unbounded.
        return Solution(values=None, bound=None, optimal=True)
    optimal = status == module.HighsModelStatus.kOptimal
    if not optimal and status != module.HighsModelStatus.kSolutionLimit:
        raise SolverFailed(f"HiGHS ended without a verdict: {highs.modelStatusToString(status)}")
    if not integers:
        return Solution(values=None, bound=Fraction(info.objective_function_value), optimal=True)
    values = None
    if info.primal_solution_status == module.SolutionStatus.kSolutionStatusFeasible:
        values = tuple(_integer(value) for value in highs.getSolution().col_value)
    # A search that ends before its first bound reports infinity. No weight is negative.
    bound = Fraction(info.mip_dual_bound) if math.isfinite(info.mip_dual_bound) else Fraction(0)
    return Solution(values=values, bound=bound, optimal=optimal)


def _integer(value: float) -> int:
    nearest = round(value)
    if abs(value - nearest) > _WHOLE_NUMBER * max(1, abs(nearest)):
        raise SolverFailed(f"HiGHS returned {value} for an integer")
    return nearest
