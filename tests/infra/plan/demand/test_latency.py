"""A latency objective chooses among the measurements of each device."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.infra import planner, stack_file
from slicewright.infra.plan.demand.classes import demand_class
from slicewright.infra.plan.demand.problem import read_demand
from slicewright.infra.plan.findings import collect

HEAD = """
config:
  slicewright:fleet:
    cloud: eks
    cluster: { name: demand, region: us-east-1 }
    demand:
      machine_types: [p5.4xlarge]
      classes:
        - name: bert
          requests_per_second: 900
"""
POINTS = """\
          latency_ms: 40
          throughput:
            H100-80:
              1g.10gb:
                - { requests_per_second: 80, latency_ms: 30 }
                - { requests_per_second: 110, latency_ms: 55 }
              2g.20gb:
                - { requests_per_second: 170, latency_ms: 22 }
                - { requests_per_second: 230, latency_ms: 40 }
              3g.40gb: [{ requests_per_second: 400, latency_ms: 40.001 }]
              whole: 500
"""


def rates(tmp_path: Path, text: str) -> dict[str, int]:
    """Device -> thousandths of requests per second."""
    file = tmp_path / "Pulumi.demand.yaml"
    file.write_text(HEAD + text)
    _, problem = read_demand(file)
    (bert,) = problem.classes
    return {slot.profile: each for slot, each in bert.yields.items()}


def test_the_highest_rate_within_the_objective_counts(tmp_path: Path) -> None:
    assert rates(tmp_path, POINTS) == {"1g.10gb": 80_000, "2g.20gb": 230_000, "whole": 500_000}


@pytest.mark.parametrize(
    ("before", "after", "place", "message"),
    [
        (
            "latency_ms: 40\n",
            "gpu_models: [H100-80]\n",
            "demand.classes[0].throughput",
            "no latency objective",
        ),
        ("latency_ms: 40\n", "latency_ms: 0\n", "demand.classes[0].latency_ms", "above 0"),
        ("latency_ms: 40\n", "latency_ms: soon\n", "demand.classes[0].latency_ms", "not a number"),
        ("latency_ms: 40\n", "latency_ms: 40ms\n", "demand.classes[0].latency_ms", "a unit: 40"),
        (
            "[{ requests_per_second: 400, latency_ms: 40.001 }]",
            "{ requests_per_second: 400, latency_ms: 40.001 }",
            'demand.classes[0].throughput.H100-80."3g.40gb"',
            "write it as a list",
        ),
        (
            "[{ requests_per_second: 400, latency_ms: 40.001 }]",
            "[]",
            'demand.classes[0].throughput.H100-80."3g.40gb"',
            "list a measurement",
        ),
        (
            "[{ requests_per_second: 400, latency_ms: 40.001 }]",
            "[{ requests_per_second: 400 }]",
            'demand.classes[0].throughput.H100-80."3g.40gb"[0]',
            "latency_ms",
        ),
    ],
)
def test_a_wrong_measurement_is_refused_with_its_place(
    tmp_path: Path, before: str, after: str, place: str, message: str
) -> None:
    assert before in POINTS
    with pytest.raises(stack_file.SpecError) as refused:
        rates(tmp_path, POINTS.replace(before, after))
    assert place in str(refused.value)
    assert message in str(refused.value)


def test_an_objective_without_measurements_is_refused(tmp_path: Path) -> None:
    text = "          latency_ms: 40\n          throughput: { H100-80: { 1g.10gb: 80 } }\n"
    with pytest.raises(stack_file.SpecError, match="has no latency to compare"):
        rates(tmp_path, text)


def test_an_objective_that_no_measurement_meets_is_named(tmp_path: Path) -> None:
    text = POINTS.replace("latency_ms: 40\n", "latency_ms: 5\n").replace("whole: 500", "")
    with pytest.raises(stack_file.SpecError, match="within 5 ms"):
        rates(tmp_path, text)


@pytest.fixture(scope="module")
def node_types(tmp_path_factory: pytest.TempPathFactory) -> tuple[planner.NodeType, ...]:
    file = tmp_path_factory.mktemp("latency") / "Pulumi.demand.yaml"
    file.write_text(HEAD + POINTS)
    return tuple(read_demand(file)[1].node_types)


MEASUREMENTS = st.lists(
    st.tuples(st.integers(1, 10_000), st.integers(1, 1000)), min_size=1, max_size=6
)


@given(MEASUREMENTS, st.integers(1, 1000), st.integers(0, 500))
def test_a_longer_latency_never_serves_less(
    node_types: tuple[planner.NodeType, ...],
    points: list[tuple[int, int]],
    objective: int,
    longer: int,
) -> None:
    def served(milliseconds: int) -> int:
        stated = stack_file.RateDemand(
            name="bert",
            requests_per_second=1,
            latency_ms=milliseconds,
            throughput={
                "H100-80": {
                    "1g.10gb": tuple(
                        stack_file.Measurement(requests_per_second=rate, latency_ms=latency)
                        for rate, latency in points
                    ),
                    "whole": 1,
                }
            },
        )
        required, problems = collect(demand_class(stated, node_types, 0, ()))
        assert not problems
        return {slot.profile: each for slot, each in required.yields.items()}.get("1g.10gb", 0)

    within = [1000 * rate for rate, latency in points if latency <= objective]
    assert served(objective) == max(within, default=0)
    assert served(objective + longer) >= served(objective)
