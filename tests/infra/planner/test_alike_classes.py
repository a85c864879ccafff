"""Classes that are alike are solved as one, and each gets its replicas."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog, planner
from slicewright.infra.planner import DemandClass, Limits, Problem, Slot
from slicewright.infra.planner.program import Program
from slicewright.infra.planner.solving import merged
from tests.properties import examples

A100 = catalog.load().gpus["A100-80"]
SMALL, MIDDLE, LARGE = (
    Slot(gpu=A100.name, profile=name) for name in ("1g.10gb", "2g.20gb", "3g.40gb")
)
DEVICES = ((SMALL, MIDDLE), (MIDDLE, SMALL), (MIDDLE,), (LARGE, planner.whole(A100)))


def _problem(sizes: list[tuple[int, int]]) -> Problem:
    classes = tuple(
        DemandClass(
            name=f"class-{number:02}",
            required=required,
            yields=dict.fromkeys(DEVICES[kind], 1),
        )
        for number, (kind, required) in enumerate(sizes)
    )
    node = planner.node_type("node", A100, gpus=2, cost=1000, partitioner="operator")
    return Problem(classes=classes, node_types=(node,), limits=Limits(pools=2))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=8))
def test_each_class_gets_its_replicas_on_a_fleet_that_is_as_cheap(
    sizes: list[tuple[int, int]],
) -> None:
    """Answers are checked against the classes as they were given. The cost is that of classes with
    a yield of two for each demand of two, which stay apart.
    """
    problem = _problem(sizes)
    answer = planner.optimise(problem)
    assert planner.violations(problem, answer) == ()
    apart = replace(
        problem,
        classes=tuple(
            replace(
                demand,
                required=2 * demand.required,
                yields=dict.fromkeys(demand.yields, 2),
            )
            for demand in problem.classes
        ),
    )
    assert len(Program(merged(apart)[0]).problem.classes) == len(sizes)
    assert planner.optimise(apart).cost == answer.cost
    served = Counter[str]()
    for part in answer.assignments:
        assert part.replicas > 0
        served[part.demand_class] += part.replicas
    for demand in problem.classes:
        assert served[demand.name] >= demand.required


def test_a_hundred_classes_of_two_kinds_are_two_columns_of_demand() -> None:
    problem, members = merged(_problem([(number % 2 * 3, number) for number in range(100)]))
    assert [demand.required for demand in problem.classes] == [2450, 2500]
    assert [len(alike) for alike in members.values()] == [50, 50]


def test_rates_are_never_merged() -> None:
    """A replica that serves 10 requests per second would serve two services with 5 each."""
    service = DemandClass(name="a", required=5, yields={SMALL: 10}, unit="requests")
    problem = replace(_problem([]), classes=(service, replace(service, name="b")))
    answer = planner.optimise(problem)
    assert sorted((part.demand_class, part.replicas) for part in answer.assignments) == [
        ("a", 1),
        ("b", 1),
    ]
