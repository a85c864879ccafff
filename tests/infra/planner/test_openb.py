"""1,672 pods of a public trace, beside the layouts of other planners in their best use."""

from __future__ import annotations

import pytest

from slicewright.infra import planner
from tests.infra.planner import openb


def test_the_trace_takes_its_certified_optimum() -> None:
    problem = openb.problem()
    assert sum(demand.required for demand in problem.classes) == 1672
    answer = planner.optimise(problem)
    assert answer.bounds.proven == answer.bounds.objective == answer.gpus
    # Each 4g takes a GPU of its own, and so each GPU has room for at most three more slices.
    assert answer.gpus >= 971


@pytest.mark.parametrize("other", openb.LAYOUTS_OF_OTHERS)
def test_no_list_of_layouts_takes_fewer_gpus(other: str) -> None:
    """Filled by the same solver, which flatters them: they place pods one after another."""
    problem = openb.problem()
    restricted = openb.with_layouts(problem, openb.LAYOUTS_OF_OTHERS[other])
    answer = planner.optimise(restricted)
    assert answer.bounds.proven == answer.bounds.objective
    assert answer.gpus >= planner.optimise(problem).gpus
