"""Proofs and verdicts at the edges: large costs, short searches, empty demand, divided nodes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from slicewright.infra import catalog, planner
from slicewright.infra.planner import DemandClass, Limits, Problem, Slot, solving
from slicewright.infra.planner.explanation import Margin, comparison, margins, obstacles

A100 = catalog.load().gpus["A100-80"]
SMALL, MIDDLE, LARGE = (
    Slot(gpu=A100.name, profile=name) for name in ("1g.10gb", "2g.20gb", "3g.40gb")
)


def _node(name: str, gpus: int, cost: int) -> planner.NodeType:
    return planner.node_type(name, A100, gpus=gpus, cost=cost, partitioner="operator")


EIGHT, ONE = _node("eight", 8, 40967), _node("one", 1, 5999)


def _class(name: str, required: int, *slots: Slot) -> DemandClass:
    return DemandClass(name=name, required=required, yields=dict.fromkeys(slots, 1))


MIXED = Problem(
    classes=(
        _class("small", 50, SMALL, MIDDLE),
        _class("middle", 17, MIDDLE),
        _class("large", 31, LARGE),
    ),
    node_types=(EIGHT, ONE),
    limits=Limits(pools=2),
)


@pytest.mark.parametrize("replicas", [1000, 10**5, 10**6, 10**7])
def test_an_optimum_is_proven_at_any_cost(replicas: int) -> None:
    """Rounding the bound by a share of it would leave a gap at USD 1,000 per hour already."""
    classes = (_class("small", replicas, SMALL, MIDDLE), _class("large", replicas // 3, LARGE))
    answer = planner.optimise(replace(MIXED, classes=classes))
    assert answer.bounds.proven == answer.bounds.objective == answer.cost


@pytest.mark.parametrize("required", [(56, 28, 2), (16, 10, 4), (31, 9, 22)])
def test_no_fleet_of_the_same_objective_has_fewer_pools(required: tuple[int, int, int]) -> None:
    """The first least fleet of each demand on single GPUs has a pool more than necessary."""
    small, middle, large = required
    classes = (
        _class("small", small, SMALL, MIDDLE),
        _class("middle", middle, MIDDLE),
        _class("large", large, LARGE),
    )
    problem = Problem(classes=classes, node_types=(ONE,), objective="gpus")
    answer = planner.optimise(problem)
    assert len(answer.pools) < len(planner.optimise(problem, break_ties=False).pools)
    fewer = replace(problem, limits=Limits(pools=len(answer.pools) - 1))
    assert planner.optimise(fewer).bounds.objective > answer.bounds.objective


@pytest.mark.parametrize("thousandths", [10**9, 10**12])
def test_a_rate_of_any_size_is_served_and_proven(thousandths: int) -> None:
    yields = {SMALL: 80123, MIDDLE: 170001}
    classes = (DemandClass(name="bert", required=thousandths + 7, yields=yields),)
    answer = planner.optimise(replace(MIXED, classes=classes))
    assert answer.bounds.proven == answer.bounds.objective


def test_whole_gpus_of_a_replica_never_lie_on_two_nodes() -> None:
    """A node with three GPUs has room for one pair: its third GPU is not half of another pair."""
    pair = planner.whole(A100, 2)
    problem = Problem(classes=(_class("pair", 2, pair),), node_types=(_node("three", 3, 1), EIGHT))
    assert [pool.node_type.name for pool in planner.optimise(problem).pools] == ["eight"]


def test_machines_have_powers_of_two_of_gpus() -> None:
    """Replicas of 2, 4 and 8 whole GPUs fill such nodes without gaps: their sum decides."""
    for machine in catalog.load().machines.values():
        assert machine.gpu_count.bit_count() <= 1, machine.name


@pytest.mark.parametrize(
    ("layout", "waste"),
    [
        ({"1g.10gb": 7}, (0, 1)),
        ({"3g.40gb": 2}, (1, 0)),
        ({"1g.20gb": 4}, (3, 0)),
        ({"4g.40gb": 1, "3g.40gb": 1}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_slices_in_no_partition_are_counted_over_all_gpus(
    layout: dict[str, int], waste: tuple[int, int]
) -> None:
    pool = planner.Pool(node_type=EIGHT, layout=layout, nodes=3)
    assert pool.outside_partitions == (24 * waste[0], 24 * waste[1])


def test_no_demand_needs_no_fleet() -> None:
    answer = planner.optimise(replace(MIXED, classes=(_class("none", 0, SMALL),)))
    assert (answer.pools, answer.cost, answer.bounds.proven) == ((), 0, 0)


def test_a_search_without_steps_says_that_it_found_nothing() -> None:
    with pytest.raises(planner.NotSolved, match="in 0 steps"):
        planner.optimise(MIXED, search_nodes=0)


def test_a_short_search_gives_a_fleet_with_its_gap() -> None:
    answer = planner.optimise(MIXED, search_nodes=1)
    best = planner.optimise(MIXED)
    assert planner.violations(MIXED, answer) == ()
    assert answer.bounds.proven <= best.cost <= answer.cost
    assert (answer.bounds.gap == 0) == (answer.cost == answer.bounds.proven)


def test_a_better_fleet_of_the_second_search_has_its_own_objective(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search for fewer pools may find a cheaper fleet, if the first one was cut short."""
    solve, calls = solving.highs.solve, []

    def cut_short(*args: object, **options: object) -> object:
        calls.append(options)
        if len(calls) == 1:
            best = solve(*args, **options)  # type: ignore[arg-type]
            assert best.values is not None
            wasteful = list(best.values)
            wasteful[next(i for i, value in enumerate(wasteful) if value)] += 1
            return replace(best, values=tuple(wasteful), optimal=False)
        return solve(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(solving.highs, "solve", cut_short)
    answer = planner.optimise(MIXED)
    assert answer.bounds.objective == answer.cost


def test_an_unfinished_search_is_not_called_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = planner.optimise(MIXED)

    def gives_up(*_: object, **__: object) -> planner.Answer:
        raise planner.NotSolved

    monkeypatch.setattr("slicewright.infra.planner.explanation.optimise", gives_up)
    assert set(margins(MIXED, answer).values()) == {Margin(added=None, verdict="unknown")}
    assert {fleet.verdict for fleet in comparison(MIXED, MIXED).values()} == {"unknown"}
    assert obstacles(MIXED) == ()


def test_the_limit_that_binds_is_the_one_whose_absence_is_cheaper() -> None:
    limits = Limits(pools=1, nodes=1000, gpus={A100.name: 8000})
    limited = replace(MIXED, limits=limits)
    fleets = comparison(limited, limited)
    best = planner.optimise(limited).cost
    cheaper = {
        rule
        for rule, attempt in fleets.items()
        if attempt.answer is not None and attempt.answer.cost < best
    }
    assert cheaper == {"without max_pools: 1"}
    assert {"without max_nodes: 1000", "without max_gpus.A100-80: 8000"} <= set(fleets)


def test_a_margin_beyond_the_limits_says_so() -> None:
    tight = replace(MIXED, limits=Limits(pools=None, nodes=planner.optimise(MIXED).nodes))
    few = replace(tight, node_types=(ONE,), limits=Limits(pools=None))
    answer = planner.optimise(few)
    exact = replace(few, limits=Limits(pools=None, nodes=answer.nodes))
    states = {name: margin.verdict for name, margin in margins(exact, answer).items()}
    assert "exceeds the limits" in states.values()


def test_a_spare_node_is_one_more_than_the_demand_needs() -> None:
    whole = Problem(
        classes=(_class("whole", 1, planner.whole(A100)),),
        node_types=(ONE,),
        limits=Limits(spare_nodes=1),
    )
    assert planner.optimise(whole).nodes == 2


def test_one_pool_has_as_many_nodes_as_its_scarcest_profile_needs() -> None:
    problem = Problem(
        classes=(_class("small", 14, SMALL), _class("large", 1, LARGE)),
        node_types=(ONE,),
        limits=Limits(pools=1),
    )
    (pool,) = planner.optimise(problem).pools
    assert (pool.nodes, pool.layout) == (4, {"1g.10gb": 4, "3g.40gb": 1})


def test_a_cheap_node_type_with_a_quota_replaces_no_other() -> None:
    quota = replace(ONE, cost=1000, most=1)
    problem = Problem(classes=(_class("whole", 8, planner.whole(A100)),), node_types=(quota, EIGHT))
    assert planner.optimise(problem).cost == EIGHT.cost


def test_small_nodes_replace_no_large_one_where_nodes_are_limited() -> None:
    problem = Problem(
        classes=(_class("whole", 8, planner.whole(A100)),),
        node_types=(replace(ONE, cost=1000), EIGHT),
        limits=Limits(nodes=1),
    )
    assert planner.optimise(problem).cost == EIGHT.cost


@pytest.mark.parametrize(
    ("bound", "proven"), [("9.5", 10), ("10.0000001", 10), ("10.5", 11), ("20", 12)]
)
def test_a_bound_is_rounded_up_to_the_grid_but_not_for_the_solvers_error(
    bound: str, proven: int
) -> None:
    assert solving._on_grid(Fraction(bound), (1, 2), objective=12) == proven
