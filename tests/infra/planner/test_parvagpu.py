"""ParvaGPU's scenarios take as few A100-80 as a proof allows."""

from __future__ import annotations

import pytest

from slicewright.infra import planner
from tests.infra.planner.parvagpu import problem


@pytest.mark.parametrize(
    ("times", "gpus"),
    [
        (1, (2, 3, 5, 7, 12, 15)),  # 44; the paper's maps use 46
        (3, (3, 6, 12, 17, 34, 44)),
        (10, (9, 18, 36, 54, 113, 145)),
    ],
)
def test_each_scenario_takes_its_certified_optimum(times: int, gpus: tuple[int, ...]) -> None:
    for scenario, most in enumerate(gpus):
        answer = planner.optimise(problem(scenario, times))
        assert (answer.gpus, answer.bounds.proven) == (most, most), f"S{scenario + 1}"


@pytest.mark.long("the same scenarios with fewer requests: tests/infra/planner/test_parvagpu.py")
@pytest.mark.parametrize(
    ("scenario", "gpus"), [(0, 51), (1, 103), (2, 214), (3, 321), (4, 671), (5, 868)]
)
def test_sixty_times_the_requests_take_their_certified_optimum(scenario: int, gpus: int) -> None:
    answer = planner.optimise(problem(scenario, 60))
    assert (answer.gpus, answer.bounds.proven) == (gpus, gpus)
